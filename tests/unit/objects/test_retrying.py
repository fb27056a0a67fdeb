import asyncio
from dataclasses import replace
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import ObjectNotFound, StorageFull, StoreUnavailable
from headwater.objects.memory import MemoryObjects
from headwater.objects.retrying import BACKOFF, RetryingObjects, TransientFailure
from tests.support.objects.faulty import FaultyObjects, ObjectFaults, When

QUICK = replace(BACKOFF, attempts=4, first=0.001, longest=0.002)


@pytest.fixture
def faulty() -> FaultyObjects:
    return FaultyObjects(MemoryObjects(clock=SystemClock()), random=Random(1))


@pytest.fixture
def store(faulty: FaultyObjects) -> RetryingObjects:
    return RetryingObjects(faulty, random=Random(1), backoff=QUICK)


@pytest.mark.parametrize("when", When)
async def test_a_put_survives_failures_before_and_after_the_write(
    store: RetryingObjects, faulty: FaultyObjects, when: When
) -> None:
    faulty.fail_next(3, when=when)
    await store.put("a", [b"1"])
    assert await store.get("a") == b"1"
    assert store.traffic.retries == 3


async def test_every_request_is_repeated(store: RetryingObjects, faulty: FaultyObjects) -> None:
    await store.put("a", [b"12"])
    faulty.fail_next()
    assert await store.get("a") == b"12"
    faulty.fail_next()
    assert await store.get_range("a", 1, 1) == b"2"
    faulty.fail_next(when=When.AFTER)
    await store.delete("a")
    assert store.traffic.retries == 3
    with pytest.raises(ObjectNotFound):
        await store.get("a")


async def test_the_last_error_is_raised_when_attempts_are_used_up(
    store: RetryingObjects, faulty: FaultyObjects
) -> None:
    faulty.fail_next(4)
    with pytest.raises(StoreUnavailable, match="injected"):
        await store.put("a", [b"1"])
    assert store.traffic.retries == 3


async def test_no_attempt_starts_after_the_total_time(faulty: FaultyObjects) -> None:
    store = RetryingObjects(faulty, random=Random(1), backoff=replace(BACKOFF, total=0.0))
    faulty.fail_next()
    with pytest.raises(TransientFailure):
        await store.get("a")
    assert store.traffic.retries == 0


@pytest.mark.parametrize("error", [StorageFull("full"), StoreUnavailable("denied")])
async def test_an_error_that_a_retry_cannot_fix_is_raised_at_once(
    store: RetryingObjects, faulty: FaultyObjects, error: StoreUnavailable | StorageFull
) -> None:
    faulty.fail_next(error=error)
    with pytest.raises(type(error), match=str(error)):
        await store.put("a", [b"1"])
    assert store.traffic.retries == 0


async def test_a_listing_that_fails_continues_without_duplicates(
    store: RetryingObjects, faulty: FaultyObjects
) -> None:
    wanted = [f"k{number:02}" for number in range(20)]
    for key in wanted:
        await store.put(key, [b"1"])
    listing = store.list("")
    seen = [(await anext(listing)).key for _ in range(5)]
    faulty.fail_next(2)
    seen += [info.key async for info in listing]
    assert seen == wanted
    assert store.traffic.retries == 2


async def test_random_faults_and_delays_lose_nothing(faulty: FaultyObjects) -> None:
    faulty.faults = ObjectFaults(before=0.2, after=0.2, longest_delay=0.002)
    backoff = replace(BACKOFF, attempts=50, first=0.0001, longest=0.001)
    store = RetryingObjects(faulty, random=Random(3), backoff=backoff)
    async with asyncio.TaskGroup() as group:
        for number in range(50):
            group.create_task(store.put(f"{number}", [b"%d" % number]))
    for number in range(50):
        assert await store.get(f"{number}") == b"%d" % number


async def test_a_hidden_object_appears_after_a_while(
    faulty: FaultyObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(faulty, "_time", lambda: now)
    faulty.faults = ObjectFaults(hidden=10)
    await faulty.put("a", [b"1"])
    with pytest.raises(ObjectNotFound):
        await faulty.get("a")
    now = 110.0
    assert await faulty.get("a") == b"1"
