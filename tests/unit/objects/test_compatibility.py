"""Stores that lack one thing each are refused; one that only fails at the moment is not."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.objects import compatibility
from headwater.objects.compatibility import check_compatibility
from headwater.objects.memory import MemoryObjects
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import Buffer, DeletableObjects, ObjectInfo
from tests.support.objects.faulty import FaultyObjects, ObjectFaults


@dataclass(slots=True)
class HandClock:
    now: int

    def now_ms(self) -> int:
        return self.now


class Replacing(MemoryObjects):
    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await self.delete(key)
        await super().put(key, parts)


class IgnoringRanges(MemoryObjects):
    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self.get(key)


class Shuffled(MemoryObjects):
    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in reversed([info async for info in super().list(prefix)]):
            yield info


class Forgetful(MemoryObjects):
    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        for info in [info async for info in super().list(prefix)][1:]:
            yield info


async def check(store: DeletableObjects) -> None:
    await check_compatibility(store, "s3://bucket", random=Random(1))


async def test_a_compatible_store_passes_and_is_left_empty() -> None:
    store = MemoryObjects(clock=SystemClock())
    await check(store)
    assert [info async for info in store.list("")] == []


async def test_objects_that_a_broker_left_behind_are_deleted_an_hour_later() -> None:
    clock = HandClock(now=10_000_000)
    store = MemoryObjects(clock=clock)
    await store.put("check/old/a", [b"1"])
    await store.put("wal/1", [b"1"])
    clock.now += compatibility.LEFT_BEHIND_MS
    await store.put("check/young/a", [b"1"])
    clock.now += 1
    await check(store)
    assert [info.key async for info in store.list("")] == ["check/young/a", "wal/1"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Replacing, "conditional put"),
        (IgnoringRanges, "ranged read"),
        (Shuffled, "key order"),
        (Forgetful, "had 2 of 3 objects"),
    ],
)
async def test_the_error_names_the_missing_feature_in_one_line(
    kind: type[MemoryObjects], reason: str
) -> None:
    store = kind(clock=SystemClock())
    with pytest.raises(
        ConfigurationError, match=f"s3://bucket cannot hold a log.*{reason}"
    ) as all_:
        await check(store)
    assert "\n" not in str(all_.value)


async def test_an_object_that_appears_late_is_refused() -> None:
    store = FaultyObjects(MemoryObjects(clock=SystemClock()), random=Random(1))
    store.faults = ObjectFaults(hidden=60)
    with pytest.raises(ConfigurationError, match="not found right after"):
        await check(store)


async def test_a_store_that_is_too_slow_counts_as_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compatibility, "TIMEOUT_SECONDS", 0.01)
    store = FaultyObjects(MemoryObjects(clock=SystemClock()), random=Random(1))
    store.faults = ObjectFaults(longest_delay=60)
    with pytest.raises(TransientFailure, match=r"s3://bucket took longer than 0\.01 s"):
        await check(store)


async def test_a_store_that_denies_access_stops_the_start() -> None:
    store = FaultyObjects(MemoryObjects(clock=SystemClock()), random=Random(1))
    store.fail_next(error=StoreUnavailable("access is denied"))
    with pytest.raises(StoreUnavailable, match="access is denied"):
        await check(store)
