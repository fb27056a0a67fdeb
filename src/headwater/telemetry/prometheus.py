"""Exports a ``Metrics`` in Prometheus' text format."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from headwater.telemetry.metrics import Counter, Family, Gauge, Histogram, Metrics, descriptions


def exposition(metrics: Metrics) -> bytes:
    """The body of ``/metrics``, with metrics of the process."""
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
        for name, text in descriptions().items():
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
