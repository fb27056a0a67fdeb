"""Counters, histograms and what Prometheus reads of them."""

from prometheus_client.parser import text_string_to_metric_families

from headwater.telemetry.metrics import Family, Histogram, Metrics, descriptions
from headwater.telemetry.prometheus import exposition


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition(metrics).decode())
        for sample in family.samples
    }


def test_a_value_on_a_bound_counts_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert (histogram.count, histogram.total) == (5, 8.0)


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    histogram = Histogram((1.0, 2.0, 3.0))
    assert histogram.quantile(0.5) == 0.0
    for value in (0.5, 0.6, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.quantile(0.5) == 1.0
    assert histogram.quantile(0.75) == 2.0
    assert histogram.quantile(0.99) == 3.0


def test_a_family_makes_one_member_per_label() -> None:
    family = Family("api", Histogram)
    assert family["Fetch"] is family["Fetch"]
    assert [label for label, _ in family] == ["Fetch"]


def test_every_metric_is_exported_under_its_name() -> None:
    metrics = Metrics()
    metrics.requests["Produce"].inc(3)
    metrics.request_seconds["Produce"].observe(0.002)
    metrics.flush_bytes.observe(1000)
    metrics.commit_unknown.inc()
    metrics.object_requests["put"].inc()
    metrics.cache_hits["chunk"].inc(2)
    metrics.connections.set(7)
    found = samples(metrics)
    api = (("api", "Produce"),)
    assert found["headwater_requests_total", api] == 3
    assert found["headwater_request_seconds_count", api] == 1
    assert found["headwater_request_seconds_bucket", (*api, ("le", "0.001"))] == 0
    assert found["headwater_request_seconds_bucket", (*api, ("le", "0.0025"))] == 1
    assert found["headwater_request_seconds_bucket", (*api, ("le", "+Inf"))] == 1
    assert found["headwater_flush_bytes_sum", ()] == 1000
    assert found["headwater_commit_unknown_total", ()] == 1
    assert found["headwater_object_requests_total", (("kind", "put"),)] == 1
    assert found["headwater_cache_hits_total", (("cache", "chunk"),)] == 2
    assert found["headwater_connections", ()] == 7
    assert found["headwater_flushes_total", ()] == 0
    assert found["process_resident_memory_bytes", ()] > 0


def test_every_attribute_has_a_description() -> None:
    assert set(descriptions()) == set(Metrics.__slots__) - {"refreshers"}


def test_each_process_has_metrics_of_its_own() -> None:
    one, other = Metrics(), Metrics()
    one.commits.inc()
    one.requests["Fetch"].inc()
    assert (other.commits.value, list(other.requests)) == (0, [])


def test_numbers_kept_elsewhere_are_read_at_each_scrape() -> None:
    metrics = Metrics()
    kept = {"open": 1}
    metrics.refreshers.append(lambda: metrics.connections.set(kept["open"]))
    assert samples(metrics)["headwater_connections", ()] == 1
    kept["open"] = 2
    assert samples(metrics)["headwater_connections", ()] == 2
