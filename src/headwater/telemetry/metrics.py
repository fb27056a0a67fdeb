"""What a broker counts, in plain integers and lists that cost well under a microsecond.

One ``Metrics`` is made by whoever composes a process and passed down; nothing here is global,
takes a lock or knows of an exporter. ``headwater.telemetry.prometheus`` turns it into an
exposition when it is scraped. Everything is touched from the event loop's thread alone.

>>> metrics = Metrics()
>>> metrics.commits.inc()
>>> metrics.commits.value
1
>>> metrics.request_seconds["Fetch"].observe(0.003)
>>> metrics.request_seconds["Fetch"].count
1
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

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
"""Bounds for latencies: from a cached fetch to a store that is in trouble."""

BYTES = tuple(float(1 << shift) for shift in range(8, 28, 2))
"""Bounds for sizes: 256 bytes to 64 MiB, by fours."""


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, n: int = 1) -> None:
        self.value += n


class Gauge:
    """A number that is what it is at the moment."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        self.value = value


class Histogram:
    """Counts of observations by fixed upper bounds; the last bucket has none."""

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
        """The upper bound of the bucket that holds the ``q``-th observation; 0 if there is none.

        The bucket without a bound answers with the largest one.
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
    """One metric per value of one label, made at first use.

    A caller on a hot path keeps the metric that it got. The label's values must be few and
    never come from a client.
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


class Metrics:
    """Everything that one broker process counts; an attribute each, named as it is exported."""

    __slots__ = (
        "buffered_bytes",
        "cache_hits",
        "cache_misses",
        "commit_conflicts",
        "commit_seconds",
        "commit_unknown",
        "commits",
        "connections",
        "connections_cut",
        "flush_bytes",
        "flushes",
        "group_write_seconds",
        "group_writes",
        "inline_bytes",
        "loop_delay_seconds",
        "object_bytes",
        "object_requests",
        "object_store_state",
        "objects_deleted",
        "offset_commits",
        "refreshers",
        "request_seconds",
        "requests",
        "slow_turns",
        "snapshot_failing_seconds",
        "zone_bytes",
    )

    def __init__(self) -> None:  # noqa: PLR0915 - each metric and what it means
        self.requests = Family("api", Counter)
        """Requests answered, by Kafka API name."""
        self.request_seconds = Family("api", Histogram)
        """From a request's last byte read to its answer handed to the socket."""
        self.flushes = Counter()
        """Write buffers flushed, inline or as objects."""
        self.flush_bytes = Histogram(BYTES)
        """Bytes of record batches in each flush."""
        self.commits = Counter()
        """Data commits that landed in the metadata store."""
        self.commit_conflicts = Counter()
        """Commits judged again because another broker's came first."""
        self.commit_unknown = Counter()
        """Commits whose answer was lost and had to be found out."""
        self.commit_seconds = Histogram()
        """From a data commit's first attempt to its end."""
        self.group_writes = Counter()
        """Transactions that made groups' records and offsets durable, many at once."""
        self.group_write_seconds = Histogram()
        """From such a transaction's first attempt to its end."""
        self.offset_commits = Counter()
        """Offset commits of clients that became durable."""
        self.object_requests = Family("kind", Counter)
        """Object store requests: put, get, delete, list, retry, error."""
        self.object_bytes = Family("direction", Counter)
        """Bytes moved to (``written``) and from (``read``) the object store."""
        self.objects_deleted = Family("reason", Counter)
        """Objects deleted from the object store, by why nothing needs them."""
        self.object_store_state = Gauge()
        """0 while the object store is healthy, 1 degraded, 2 unavailable."""
        self.cache_hits = Family("cache", Counter)
        self.cache_misses = Family("cache", Counter)
        """Looked up and found, or not, by cache."""
        self.zone_bytes = Family("where", Counter)
        """Bytes of records between this broker and clients that name their zone: ``within`` one
        zone, or ``across``."""
        self.loop_delay_seconds = Gauge()
        """By how much the event loop was late at most in the last one to two minutes."""
        self.slow_turns = Family("api", Counter)
        """Turns of the event loop that held it for over 0.25 s, by Kafka API or ``other work``."""
        self.connections = Gauge()
        """Open client connections."""
        self.connections_cut = Family("reason", Counter)
        """Connections that the broker closed: ``idle`` for too long, ``evicted`` to make room for
        others, or over the limit ``per_ip``."""
        self.buffered_bytes = Gauge()
        """Bytes of record batches taken in and not yet committed."""
        self.inline_bytes = Gauge()
        """Bytes of records in the metadata store that this broker has yet to move to objects."""
        self.snapshot_failing_seconds = Gauge()
        """How long this broker has failed to copy the metadata to the object store; 0: not."""
        self.refreshers: list[Callable[[], None]] = []
        """Called before each scrape, for numbers that are kept elsewhere."""

    def refresh(self) -> None:
        """Bring the numbers up to date that are kept elsewhere."""
        for refresher in self.refreshers:
            refresher()
