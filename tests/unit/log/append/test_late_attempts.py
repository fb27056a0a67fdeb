"""A transaction whose answer was lost is tried again, and its first attempt lands after all."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import pytest

from headwater.clock import SystemClock
from headwater.errors import KafkaError, RequestTimedOut, StoreError
from headwater.log.formats.metadata_values import Incarnation
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.orphans import fence
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.restore import restore
from headwater.meta import keys
from headwater.meta.store import CommitResult, Decide
from headwater.meta.values import decode
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, payloads, poll, read_all, running_engine
from tests.support.log.late_store import LateStore
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, values
from tests.support.simulation.loop import on_simulated_time

T = TypeVar("T")


@on_simulated_time
async def test_a_broker_that_took_a_name_keeps_its_commits() -> None:
    store, objects = LateStore(), MemoryObjects(clock=SystemClock())
    async with running_engine(store, objects, housekeeping=False) as engine:
        await engine.topics.create("t", 1, {})
        store.holds = True
        await engine.become_new_incarnation()
        assert await append(engine, "t", [make_batch(b"a")]) == 0
        await store.land()
        own = await store.get(keys.incarnation(0, engine.incarnation))
        assert own is not None
        assert decode(Incarnation, own.value).number == 1
        assert await append(engine, "t", [make_batch(b"b")]) == 1


class StoppingStore(LateStore):
    """Commits wait while the broker is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = asyncio.Event()
        self.runs.set()
        self.waits = asyncio.Event()

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if any("/tail/" in key for key in keys) and not self.runs.is_set():
            self.waits.set()
            await self.runs.wait()
        return await super().transact(domain, keys, decide)


@on_simulated_time
async def test_a_fenced_name_does_not_come_back() -> None:
    """Its objects were deleted as orphans: what it committed then would not be there."""
    place, store = RestorePlace(whole=True), StoppingStore()
    async with running_engine(
        store, place.objects, clock=place.clock, housekeeping=False, settings=OBJECTS_ONLY
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        store.holds = True
        await engine.become_new_incarnation()
        store.runs.clear()
        done = engine.append(topic, 0, [make_batch(b"a")])
        await store.waits.wait()  # its object is written
        await fence(store, engine.incarnation)
        collector = GarbageCollector(
            store, place.objects, Reclaimer(place.objects), OBJECTS_ONLY, place.clock
        )
        assert await collector.collect_orphans([]) == 1
        await store.land()
        store.runs.set()
        with pytest.raises(KafkaError, match="was fenced"):
            await done


@on_simulated_time
async def test_a_restored_cluster_is_not_wiped_again() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await place.snapshot()
    store = LateStore()
    store.holds = True
    await restore(store, place.objects, place.clock)
    await store.land()
    async with running_engine(store, place.objects, clock=place.clock) as engine:
        assert [payload for _, payload in await read_all(engine, "t")] == [b"a"]


@on_simulated_time
async def test_a_restored_log_is_not_set_back() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await place.snapshot()
    store = LateStore()
    store.holds_tail = True
    await restore(store, place.objects, place.clock)
    async with running_engine(
        store, place.objects, clock=place.clock, housekeeping=False, settings=OBJECTS_ONLY
    ) as engine:
        assert await append(engine, "t", [make_batch(b"b")]) == 1
        await store.land()
        assert await append(engine, "t", [make_batch(b"c")]) == 2
        assert values(await read_all(engine, "t")) == [b"a", b"b", b"c"]


class RefusingStore(LateStore):
    """Refuses the attempt after the one that it holds back."""

    refused = False

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if self._held is not None and not self.refused:
            self.refused = True
            raise StoreError("refused")
        return await super().transact(domain, keys, decide)


@on_simulated_time
async def test_a_commit_that_lands_after_it_was_given_up_is_read_without_another() -> None:
    store, objects = RefusingStore(), MemoryObjects(clock=SystemClock())
    async with running_engine(store, objects) as engine:
        await engine.topics.create("t", 1, {})
        await asyncio.sleep(0.01)  # it follows changes
        store.holds_tail = True
        with pytest.raises(RequestTimedOut):
            await append(engine, "t", [make_batch(b"a")])
        assert await read_all(engine, "t") == []
        waiting = asyncio.create_task(poll(engine, "t", 0, 0))
        await asyncio.sleep(0.01)
        await store.land()
        assert payloads(await waiting) == [(0, b"a")]
        assert await append(engine, "t", [make_batch(b"b")]) == 1
        invalidations = engine._streams.invalidations
        assert await append(engine, "t", [make_batch(b"c")]) == 2
        await asyncio.sleep(0.01)
        assert engine._streams.invalidations == invalidations  # its own commits are known again
