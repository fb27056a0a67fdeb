"""A ``Metrics`` as Prometheus sees it, made afresh at each scrape."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from headwater.telemetry.metrics import Counter, Family, Gauge, Histogram, Metrics

HELP = {
    "requests": "Requests answered, by Kafka API",
    "request_seconds": "Time from a request's last byte read to its answer sent, by Kafka API",
    "flushes": "Write buffers flushed, inline or as objects",
    "flush_bytes": "Bytes of record batches in a flush",
    "commits": "Data commits that landed in the metadata store",
    "commit_conflicts": "Commits judged again because another broker's came first",
    "commit_unknown": "Commits whose answer was lost and had to be found out",
    "commit_seconds": "Time of a data commit, from its first attempt to its end",
    "group_writes": "Transactions that made groups' records and offsets durable",
    "group_write_seconds": "Time of such a transaction, from its first attempt to its end",
    "offset_commits": "Offset commits of clients that became durable",
    "object_requests": "Object store requests, by kind",
    "object_bytes": "Bytes moved to and from the object store",
    "objects_deleted": "Objects deleted from the object store, by why nothing needs them",
    "object_store_state": "The object store's health: 0 healthy, 1 degraded, 2 unavailable",
    "cache_hits": "Looked up and found, by cache",
    "cache_misses": "Looked up and not found, by cache",
    "zone_bytes": "Bytes of records that stayed within their client's zone, or went across",
    "loop_delay_seconds": "Longest delay of the event loop in the last one to two minutes",
    "slow_turns": "Turns that held the event loop for over 0.25 s, by Kafka API",
    "connections": "Open client connections",
    "connections_cut": "Connections closed by the broker: idle, evicted, or too many per_ip",
    "inline_bytes": "Bytes of records in the metadata store that are to be moved to objects",
    "snapshot_failing_seconds": "How long snapshots of the metadata have failed; alert above 1800",
    "buffered_bytes": "Bytes of memory that records take which are not yet committed",
}
"""Every exported attribute of ``Metrics`` and what it means; ``headwater_`` goes before it."""


def exposition(metrics: Metrics) -> bytes:
    """The text that ``/metrics`` answers, process metrics included."""
    registry = CollectorRegistry()
    registry.register(_MetricsCollector(metrics))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _MetricsCollector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        self._metrics.refresh()
        for name, text in HELP.items():
            yield _family(f"headwater_{name}", text, getattr(self._metrics, name))


def _family(
    name: str,
    text: str,
    source: Counter | Gauge | Histogram | Family[Counter] | Family[Gauge] | Family[Histogram],
) -> Metric:
    labels = [source.label] if isinstance(source, Family) else []
    members = (
        [([value], member) for value, member in source]
        if isinstance(source, Family)
        else [([], source)]
    )
    kind = source.make if isinstance(source, Family) else type(source)
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
    if kind is Counter:
        family = CounterMetricFamily(name, text, labels=labels)
    elif kind is Gauge:
        family = GaugeMetricFamily(name, text, labels=labels)
    else:
        family = HistogramMetricFamily(name, text, labels=labels)
    for values, member in members:
        if isinstance(member, Histogram):
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(values, buckets=_buckets(member), sum_value=member.total)
        else:
            assert not isinstance(family, HistogramMetricFamily)
            family.add_metric(values, member.value)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    seen = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
        seen += count
        buckets.append(("+Inf" if bound is None else str(bound), seen))
    return buckets
