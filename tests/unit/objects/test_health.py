"""The states of a store's health, with a clock that the tests hold."""

from dataclasses import dataclass, field

import pytest

from headwater.objects.health import HealthState, StoreHealth, StoreSuspended


@dataclass
class ImaginedStore:
    """Requests to an imagined store, one after the other."""

    health: StoreHealth = field(default_factory=StoreHealth)
    now: float = 100.0

    def ask(self, count: int = 1, *, seconds: float = 0.01, failed: bool = False) -> None:
        for _ in range(count):
            request = self.health.begin(self.now)
            self.now += seconds
            self.health.end(request, self.now, failed=failed)

    def state(self) -> HealthState:
        return self.health.state(self.now)


def test_a_store_without_requests_is_healthy() -> None:
    assert ImaginedStore().state() is HealthState.HEALTHY


def test_a_fast_store_without_errors_is_healthy() -> None:
    store = ImaginedStore()
    store.ask(100)
    assert store.state() is HealthState.HEALTHY


@pytest.mark.parametrize(
    ("good", "bad", "state"),
    [
        (1000, 8, HealthState.HEALTHY),
        (0, 7, HealthState.HEALTHY),
        (33, 8, HealthState.HEALTHY),
        (32, 8, HealthState.DEGRADED),
        (6, 8, HealthState.DEGRADED),
        (5, 8, HealthState.UNAVAILABLE),
        (0, 8, HealthState.UNAVAILABLE),
    ],
)
def test_the_fraction_of_errors_counts_from_the_minimum_of_failures(
    good: int, bad: int, state: HealthState
) -> None:
    store = ImaginedStore()
    store.ask(good, seconds=0.001)
    store.ask(bad, seconds=0.001, failed=True)
    assert store.state() is state


@pytest.mark.parametrize(
    ("seconds", "state"),
    [
        (0.4, HealthState.HEALTHY),
        (0.6, HealthState.DEGRADED),
        (4.9, HealthState.DEGRADED),
        (5.1, HealthState.UNAVAILABLE),
    ],
)
def test_latency_alone_can_degrade_a_store(seconds: float, state: HealthState) -> None:
    store = ImaginedStore()
    store.ask(2, seconds=seconds)
    assert store.state() is state


def test_the_transfer_time_of_large_objects_does_not_count() -> None:
    store = ImaginedStore()
    for _ in range(10):
        request = store.health.begin(store.now, 16_000_000)
        store.now += 4.3
        assert store.state() is HealthState.HEALTHY
        store.health.end(request, store.now, failed=False)
    assert store.state() is HealthState.HEALTHY
    store.health.begin(store.now, 16_000_000)
    store.now += 24.1
    assert store.state() is HealthState.UNAVAILABLE


def test_requests_older_than_the_window_do_not_count() -> None:
    store = ImaginedStore()
    store.ask(8, failed=True)
    assert store.state() is HealthState.UNAVAILABLE
    store.now += 10.1
    assert store.state() is HealthState.HEALTHY


def test_an_unavailable_store_gets_one_probe_a_second_and_other_requests_fail_at_once() -> None:
    store = ImaginedStore()
    store.ask(8, failed=True)
    sent = refused = 0
    for _ in range(100):
        store.now += 0.05
        try:
            store.ask(seconds=0, failed=True)
            sent += 1
        except StoreSuspended:
            refused += 1
    assert (sent, refused) == (5, 95)


def test_one_request_that_succeeds_ends_the_outage() -> None:
    store = ImaginedStore()
    store.ask(8, failed=True)
    store.ask()
    assert store.state() is HealthState.HEALTHY
    store.ask(50)


def test_a_frozen_store_becomes_unavailable_although_no_request_ends() -> None:
    store = ImaginedStore()
    store.ask(5)
    hung = [store.health.begin(store.now) for _ in range(3)]
    assert store.state() is HealthState.HEALTHY
    store.now += 11
    assert store.state() is HealthState.UNAVAILABLE
    probe = store.health.begin(store.now)
    store.now += 0.1
    with pytest.raises(StoreSuspended, match=r"unavailable \(0 of 3 requests failed, 11\.1 s each"):
        store.health.begin(store.now)
    store.health.end(probe, store.now, failed=False)
    assert store.state() is HealthState.HEALTHY, (
        "what hung before the outage ended is not held against it"
    )
    for request in hung:
        store.health.end(request, store.now, failed=False)


def test_a_cancelled_request_does_not_count() -> None:
    store = ImaginedStore()
    for _ in range(20):
        request = store.health.begin(store.now)
        store.now += 0.1
        store.health.forget(request)
    assert store.state() is HealthState.HEALTHY
    store.ask(8, failed=True)
    probe = store.health.begin(store.now)
    store.health.forget(probe)
    store.now += 1
    store.ask()
    assert store.state() is HealthState.HEALTHY


def test_totals_stay_correct_over_many_windows() -> None:
    store = ImaginedStore()
    for number in range(5_000):
        store.ask(seconds=0.05, failed=number % 50 == 0)
    found = store.health.summary(store.now)
    assert found.requests == pytest.approx(200, abs=2)
    assert found.failures == 4
    assert found.mean_seconds == pytest.approx(0.05)
