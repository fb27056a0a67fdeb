"""A transaction whose answer was lost is tried again, and its first attempt lands after all."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.clock import SystemClock
from headwater.errors import UnknownOutcome
from headwater.log.formats import Incarnation
from headwater.log.restore import restore
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Committed, Decide, T
from headwater.meta.values import decode
from headwater.objects.memory import MemoryObjects
from tests.log.harness import append, make_batch, read_all, running_engine
from tests.log.restoring import Place


class LateStore(MemoryStore):
    """Holds one transaction back when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self._held: Callable[[], Any] | None = None

    async def transact(self, domain: int, keys: Sequence[str], decide: Decide[T]) -> Committed[T]:
        if self.holds:
            self.holds = False
            before = {key: await self.get(key) for key in keys}

            async def land() -> None:
                # What stores compare: the keys are as they were when the attempt was made.
                if before == {key: await self.get(key) for key in keys}:
                    await super(LateStore, self).transact(domain, keys, decide)

            self._held = land
            raise UnknownOutcome("lost")
        return await super().transact(domain, keys, decide)

    async def land(self) -> None:
        assert self._held is not None
        await self._held()


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


async def test_a_restored_cluster_is_not_wiped_again() -> None:
    place = Place()
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
