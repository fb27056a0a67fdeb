"""Metrics as plain integers and lists; an update takes well under a microsecond.

The assembly of a process creates one ``Metrics`` and passes it down. Nothing here is global, uses a
lock or depends on an exporter; ``headwater.telemetry.prometheus`` exports it. Metrics are used on
the event loop's thread only.

>>> metrics = Metrics()
>>> metrics.commits.inc()
>>> metrics.commits.value
1
>>> metrics.request_seconds["Fetch"].observe(0.003)
>>> metrics.request_seconds["Fetch"].count
1
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final, Generic, TypeVar

SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""Bucket bounds for latencies in seconds, from a cached fetch to a failing store."""

BYTES = tuple(float(1 << shift) for shift in range(8, 28, 2))
"""Bucket bounds for sizes: 256 bytes to 64 MiB, each four times the previous one."""


class Counter:
    """A number that only rises."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, n: int = 1) -> None:
        self.value += n


class Gauge:
    """A number that can go up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """Counts of observations in buckets with fixed upper bounds; the last has no bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, q: float) -> float:
        """The upper bound of the bucket with the ``q``-quantile; 0 without observations.

        For the bucket without a bound, this is the largest bound.
        """
        rank = q * self.count
        seen = 0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            seen += count
            if seen >= rank and seen:
                return bound
        return self.bounds[-1] if self.count else 0.0


M = TypeVar("M", bound=Counter | Gauge | Histogram)


class Family(Generic[M]):
    """One metric per value of a label, created at its first use.

    Callers on a hot path should keep a reference to the metric. A label must have few values, and
    they must not come from clients.
    """

    __slots__ = ("_members", "label", "make")

    def __init__(self, label: str, make: Callable[[], M]) -> None:
        self.label = label
        self.make = make
        self._members: dict[str, M] = {}

    def __getitem__(self, value: str) -> M:
        member = self._members.get(value)
        if member is None:
            member = self._members[value] = self.make()
        return member

    def __iter__(self) -> Iterator[tuple[str, M]]:
        return iter(list(self._members.items()))


HELP: Final = "help"
"""The key of a metric's description in the metadata of its field."""


def counter(description: str) -> Counter:
    """Declares a counter of ``Metrics``."""
    made: Counter = field(default_factory=Counter, metadata={HELP: description})
    return made


def gauge(description: str) -> Gauge:
    """Declares a gauge of ``Metrics``."""
    made: Gauge = field(default_factory=Gauge, metadata={HELP: description})
    return made


def histogram(description: str, bounds: Sequence[float] = SECONDS) -> Histogram:
    """Declares a histogram of ``Metrics``."""
    made: Histogram = field(
        default_factory=partial(Histogram, bounds), metadata={HELP: description}
    )
    return made


def family(label: str, make: Callable[[], M], description: str) -> Family[M]:
    """Declares a family of ``Metrics``, with one metric per value of ``label``."""
    made: Family[M] = field(
        default_factory=partial(Family, label, make), metadata={HELP: description}
    )
    return made


@dataclass(slots=True, eq=False)
class Metrics:
    """The metrics of one broker process.

    Each is exported under its name after ``headwater_``, with its description as the help text.
    """

    requests: Family[Counter] = family("api", Counter, "Requests answered, by Kafka API")
    request_seconds: Family[Histogram] = family(
        "api",
        Histogram,
        "Time from reading a request's last byte to writing its answer, by Kafka API",
    )
    flushes: Counter = counter("Write buffers flushed, inline or as objects")
    flush_bytes: Histogram = histogram("Bytes of record batches per flush", BYTES)
    commits: Counter = counter("Data commits to the metadata store")
    commit_conflicts: Counter = counter("Data commits repeated after another broker's commit")
    commit_unknown: Counter = counter("Data commits whose answer was lost")
    commit_seconds: Histogram = histogram("Time of a data commit, from its first attempt")
    group_writes: Counter = counter("Transactions that wrote groups' records and offsets")
    group_write_seconds: Histogram = histogram(
        "Time of a transaction that wrote groups' records and offsets, from its first attempt"
    )
    offset_commits: Counter = counter("Durable offset commits of clients")
    object_requests: Family[Counter] = family(
        "kind", Counter, "Object store requests: put, get, delete, list, retry, error"
    )
    object_bytes: Family[Counter] = family(
        "direction", Counter, "Bytes written to and read from the object store"
    )
    objects_deleted: Family[Counter] = family(
        "reason", Counter, "Objects deleted from the object store, by reason"
    )
    object_store_state: Gauge = gauge(
        "State of the object store: 0 healthy, 1 degraded, 2 unavailable"
    )
    cache_hits: Family[Counter] = family("cache", Counter, "Lookups that hit, by cache")
    cache_misses: Family[Counter] = family("cache", Counter, "Lookups that missed, by cache")
    zone_bytes: Family[Counter] = family(
        "where",
        Counter,
        "Bytes of records to and from clients with a zone: within that zone, or across zones",
    )
    loop_delay_seconds: Gauge = gauge(
        "Longest delay of the event loop in the last one to two minutes"
    )
    slow_turns: Family[Counter] = family(
        "api", Counter, "Callbacks that blocked the event loop for over 0.25 s, by Kafka API"
    )
    connections: Gauge = gauge("Open client connections")
    connections_cut: Family[Counter] = family(
        "reason", Counter, "Connections closed by the broker: idle, evicted, or too many per_ip"
    )
    buffered_bytes: Gauge = gauge("Bytes of memory of record batches that are not committed yet")
    inline_bytes: Gauge = gauge("Bytes of inline records that this broker will move to objects")
    snapshot_failing_seconds: Gauge = gauge(
        "Time for which snapshots of the metadata have failed; alert above 1800"
    )
    refreshers: list[Callable[[], None]] = field(default_factory=list)
    """Called before each scrape, to set metrics whose values are kept elsewhere."""

    def refresh(self) -> None:
        """Set the metrics whose values are kept elsewhere."""
        for refresher in self.refreshers:
            refresher()


def descriptions() -> Mapping[str, str]:
    """The name and the description of every metric."""
    return {each.name: each.metadata[HELP] for each in fields(Metrics) if HELP in each.metadata}
