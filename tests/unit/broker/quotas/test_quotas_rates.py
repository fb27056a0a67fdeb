"""Rates, limits and entities, without a broker."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.quotas.enforcement import ClientQuotas
from headwater.broker.quotas.entities import (
    CLIENT_ID,
    PRODUCER_BYTE_RATE,
    USER,
    EffectiveQuota,
    Entity,
    check_alteration,
    client_limit,
    entity_of,
    entity_text,
)
from headwater.broker.quotas.filters import Filter, filter_of
from headwater.broker.quotas.rates import SAMPLE_MS, SAMPLES, RateWindow, TokenBucket
from headwater.errors import InvalidRequest, ThrottlingQuotaExceeded, UnsupportedVersion

NAMES = st.text(min_size=1, max_size=8)
uses = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 10_000)), max_size=60)


class KafkaRate:
    """Kafka's ``Rate`` over its ``SampledStat``, which recycles a ring of samples."""

    def __init__(self) -> None:
        self.samples: list[list[float]] = []
        self.current = 0

    def record(self, value: float, now: int) -> None:
        if not self.samples:
            self.samples.append([now, now, 0.0])
        sample = self.samples[self.current]
        if now - sample[0] >= SAMPLE_MS:
            self.current = (self.current + 1) % (SAMPLES + 1)
            if self.current >= len(self.samples):
                self.samples.append([now, now, 0.0])
            sample = self.samples[self.current]
            sample[:] = [now, now, 0.0]
        sample[1] = now
        sample[2] += value

    def length(self, now: int) -> float:
        for sample in self.samples:
            if now - sample[1] >= SAMPLES * SAMPLE_MS:
                sample[:] = [now, now, 0.0]
        elapsed = now - min((sample[0] for sample in self.samples), default=now)
        full = elapsed // SAMPLE_MS
        if full < SAMPLES - 1:
            elapsed += (SAMPLES - 1 - full) * SAMPLE_MS
        return max(elapsed, 1)

    def rate(self, now: int) -> float:
        length = self.length(now)
        return sum(sample[2] for sample in self.samples) * 1000 / length


@given(uses)
def test_a_rate_is_what_kafka_measures(uses: list[tuple[int, int]]) -> None:
    ours, theirs, now = RateWindow(), KafkaRate(), 0
    for pause, amount in uses:
        now += pause
        ours.record(amount, now)
        theirs.record(amount, now)
        assert ours.rate(now) == pytest.approx(theirs.rate(now))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.integers(1000, 20_000))
def test_a_client_that_waits_for_its_throttle_time_stays_near_its_limit(
    amounts: list[int], limit: int
) -> None:
    window, now, used = RateWindow(), 0, 0
    for turn in range(400):
        amount = amounts[turn % len(amounts)]
        window.record(amount, now)
        used += amount
        now += window.throttle_ms(limit, now) + 1
    burst = limit * (SAMPLES + 1) * SAMPLE_MS / 1000
    # Kafka's windows have edges, at which a client gains a little.
    assert used <= 1.25 * limit * now / 1000 + burst + max(amounts)


def test_a_burst_after_a_pause_is_measured_over_ten_seconds() -> None:
    window = RateWindow()
    window.record(1000, 50_000)
    assert window.rate(50_000) == 100
    assert window.throttle_ms(100, 50_000) == 0
    window.record(500, 50_000)
    assert window.throttle_ms(100, 50_000) == 5000


def test_an_amount_that_is_undone_does_not_count() -> None:
    window = RateWindow()
    window.record(5000, 10)
    window.record(-5000, 11)
    assert window.rate(12) == 0


@given(st.floats(0.1, 1000), st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 100))))
def test_a_bucket_allows_its_rate_and_one_burst(limit: float, takes: list[tuple[int, int]]) -> None:
    bucket, now, taken = TokenBucket(limit, 0), 0, 0
    for pause, tokens in takes:
        now += pause
        if bucket.throttle_ms(now) == 0:
            bucket.take(tokens, now)
            taken += tokens
    assert taken <= limit * (now / 1000 + SAMPLES) + 100 + 1


def test_an_overdrawn_bucket_has_a_throttle_time() -> None:
    bucket = TokenBucket(2, 0)
    bucket.take(30, 0)
    assert bucket.throttle_ms(0) == 4000
    assert bucket.throttle_ms(3000) == 1000
    assert bucket.throttle_ms(4000) == 0


def test_a_bucket_with_another_limit_refills_at_that_rate() -> None:
    bucket = TokenBucket(2, 0)
    bucket.take(32, 0)
    bucket.change_limit(10, 0)
    assert bucket.throttle_ms(0) == 1000


@given(
    st.dictionaries(st.sampled_from([USER, CLIENT_ID, "ip"]), st.none() | NAMES, min_size=1).map(
        lambda parts: frozenset(parts.items())
    )
)
def test_an_entity_survives_its_text_form(entity: Entity) -> None:
    text = entity_text(entity)
    assert entity_of(text) == entity
    assert text.isascii()


ORDER: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
    ({USER: "u", CLIENT_ID: "c"}, ("u", "c")), ({USER: "u", CLIENT_ID: None}, ("u", "c")),
    ({USER: "u"}, ("u", None)), ({USER: None, CLIENT_ID: "c"}, ("u", "c")),
    ({USER: None, CLIENT_ID: None}, ("u", "c")), ({USER: None}, ("u", None)),
    ({CLIENT_ID: "c"}, (None, "c")), ({CLIENT_ID: None}, (None, "c")),
]  # fmt: skip
"""Entities from the most to the least specific, and who shares a limit of each."""


@given(st.sets(st.integers(0, len(ORDER) - 1)))
def test_the_most_specific_quota_applies(present: set[int]) -> None:
    quotas = {
        frozenset(ORDER[index][0].items()): {PRODUCER_BYTE_RATE: float(index + 1)}
        for index in present
    }
    quotas[frozenset({(USER, "u")}) | frozenset({(CLIENT_ID, "other")})] = {
        PRODUCER_BYTE_RATE: 99.0
    }
    expected = None
    if present:
        expected = EffectiveQuota(min(present) + 1.0, ORDER[min(present)][1])
    assert client_limit(quotas, PRODUCER_BYTE_RATE, "u", "c") == expected


def test_a_quota_of_another_kind_does_not_hide_a_less_specific_one() -> None:
    quotas: Mapping[Entity, Mapping[str, float]] = {
        frozenset({(USER, "u")}): {"consumer_byte_rate": 1.0},
        frozenset({(CLIENT_ID, "c")}): {PRODUCER_BYTE_RATE: 2.0},
    }
    assert client_limit(quotas, PRODUCER_BYTE_RATE, "u", "c") == EffectiveQuota(2.0, (None, "c"))


@dataclass
class Component:
    entity_type: str
    match_type: int
    match: str | None


@pytest.mark.parametrize(
    ("component", "error"),
    [(("user", 0, None), InvalidRequest), (("user", 1, "x"), InvalidRequest),
     (("user", 2, "x"), InvalidRequest), (("user", 3, None), InvalidRequest),
     (("", 0, "x"), InvalidRequest), (("zip", 0, "x"), UnsupportedVersion)],
)  # fmt: skip
def test_a_contradictory_filter_is_refused(
    component: tuple[str, int, str | None], error: type[Exception]
) -> None:
    with pytest.raises(error):
        filter_of([Component(*component)], strict=False)


@pytest.mark.parametrize("kinds", [("user", "user"), ("user", "ip"), ("ip", "client-id")])
def test_parts_of_a_filter_that_exclude_each_other_are_refused(kinds: tuple[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        filter_of([Component(kind, 2, None) for kind in kinds], strict=False)


def test_filters_match_as_kafkas_do() -> None:
    both = frozenset({(USER, "u"), (CLIENT_ID, None)})
    wanted: list[tuple[Filter, bool]] = [
        (Filter({}, frozenset(), strict=False), True),
        (Filter({}, frozenset(), strict=True), False),
        (Filter({USER: "u"}, frozenset(), strict=False), True),
        (Filter({USER: "u"}, frozenset(), strict=True), False),
        (Filter({USER: "u"}, frozenset({CLIENT_ID}), strict=True), True),
        (Filter({USER: "u", CLIENT_ID: None}, frozenset(), strict=True), True),
        (Filter({CLIENT_ID: "c"}, frozenset(), strict=False), False),
        (Filter({}, frozenset({"ip"}), strict=False), False),
    ]  # fmt: skip
    assert [one.matches(both) for one, _ in wanted] == [expected for _, expected in wanted]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize("key", ["producer_byte_rate", "request_percentage"])
def test_a_limit_is_above_zero(key: str, value: float) -> None:
    with pytest.raises(InvalidRequest, match="greater than 0"):
        check_alteration(frozenset({(USER, "u")}), {key: value})


def client_quotas(limits: Mapping[str, float], clock: list[float]) -> ClientQuotas:
    quotas = ClientQuotas(lambda: clock[0])
    quotas.change({frozenset({(CLIENT_ID, None)}): limits})
    return quotas


def test_clients_under_a_default_quota_are_counted_separately() -> None:
    clock = [100.0]
    quotas = client_quotas({"producer_byte_rate": 100.0}, clock)
    assert quotas.charge_produce("a", 2000) == 10_000
    assert quotas.charge_produce("b", 500) == 0


def test_a_change_of_quotas_keeps_what_was_counted() -> None:
    clock = [100.0]
    quotas = client_quotas({"producer_byte_rate": 1000.0}, clock)
    assert quotas.charge_produce("a", 2000) == 0
    quotas.change({frozenset({(CLIENT_ID, "a")}): {"producer_byte_rate": 100.0}})
    assert quotas.charge_produce("a", 0) == 10_000


def test_a_fetch_that_is_not_answered_does_not_count() -> None:
    quotas = client_quotas({"consumer_byte_rate": 100.0}, [100.0])
    assert quotas.charge_fetch("a", 2000) == 10_000
    assert quotas.charge_fetch("a", 900) == 0
    assert quotas.max_fetch_bytes("a") == 1000


def test_the_throttle_time_for_processing_time_is_at_most_one_second() -> None:
    quotas = client_quotas({"request_percentage": 10.0}, [100.0])
    quotas.charge_time("a", 0.5)
    assert quotas.time_throttle_ms("a") == 0
    quotas.charge_time("a", 9.5)
    assert quotas.time_throttle_ms("a") == 1000
    assert quotas.time_throttle_ms("b") == 0


@pytest.mark.parametrize(("strict", "refused"), [(True, True), (False, False)])
def test_mutations_beyond_the_quota_are_refused_or_throttled_later(
    strict: bool,
    refused: bool,
) -> None:
    clock = [100.0]
    quotas = client_quotas({"controller_mutation_rate": 1.0}, clock)
    first = quotas.mutations("a", strict=strict)
    first.take(21)
    assert first.throttle_ms == (0 if strict else 10_000)
    second = quotas.mutations("a", strict=strict)
    if refused:
        with pytest.raises(ThrottlingQuotaExceeded):
            second.take(1)
    else:
        second.take(1)
    assert second.throttle_ms == (10_000 if strict else 11_000)
    clock[0] += 11
    third = quotas.mutations("a", strict=True)
    third.take(1)
    assert third.throttle_ms == 0


def test_addresses_are_counted_separately_in_any_spelling() -> None:
    quotas = ClientQuotas(lambda: 100.0)
    quotas.change(
        {
            frozenset({("ip", "2001:DB8::0:1")}): {"connection_creation_rate": 1.0},
            frozenset({("ip", None)}): {"connection_creation_rate": 2.0},
        }
    )
    for address, allowed in (("2001:db8::1", 10), ("10.0.0.1", 20), ("::ffff:10.0.0.2", 20)):
        waits = [quotas.charge_connection(address) for _ in range(allowed + 1)]
        assert waits[:-1] == [0] * allowed
        assert 0 < waits[-1] <= 1000
    assert quotas.charge_connection("/run/socket") == 0


def test_counting_very_many_clients_stays_bounded() -> None:
    clock = [100.0]
    quotas = client_quotas({"producer_byte_rate": 100.0, "controller_mutation_rate": 5.0}, clock)
    for index in range(12_000):
        clock[0] += 0.01
        quotas.charge_produce(f"client-{index}", 10)
    assert len(quotas._windows) <= 10_001
    assert len(quotas._clients) <= 10_001
