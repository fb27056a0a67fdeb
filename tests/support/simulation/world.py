"""A simulated cluster: engines that can be killed at any await, on shared stores with faults."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from headwater.clock import Clock
from headwater.errors import KafkaError
from headwater.log.engine import LogEngine, open_cluster
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import Limits, MetadataStore
from headwater.objects.memory import MemoryObjects
from headwater.objects.store import DeletableObjects
from headwater.telemetry.metrics import Metrics
from tests.support.log.harness import WholeObjects
from tests.support.meta.faulty import FaultyStore, MetadataFaults
from tests.support.meta.guarded import GuardedStore
from tests.support.objects.faulty import FaultyObjects, ObjectFaults
from tests.support.objects.guarded import GuardedObjects

T = TypeVar("T")


class Life:
    """A process's life: after its end nothing that it does reaches a store or comes back."""

    def __init__(self) -> None:
        self.dead = False

    async def guard(self, call: Callable[[], Awaitable[T]]) -> T:
        if self.dead:
            await asyncio.Event().wait()
        result = await call()
        if self.dead:
            await asyncio.Event().wait()
        return result


async def at_once(function: Callable[[], T]) -> T:
    """There are no threads on simulated time."""
    return function()


class SimulatedBroker:
    """One engine and its life."""

    def __init__(self, world: "SimulatedCluster", broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.life = Life()
        self.engine: LogEngine | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        world = self.world
        rng = Random(world.rng.random())
        meta, objects = world.stores(rng, self.life)
        engine = LogEngine(
            meta=meta,
            objects=objects,
            reclaimer=Reclaimer(objects),
            broker_id=self.broker_id,
            cluster=await open_cluster(meta, rng),
            settings=world.settings,
            clock=world.clock,
            rng=rng,
            metrics=Metrics(),
            living=world.living,
            share=lambda _stream: True,
            offload=at_once,
        )
        await engine.start()
        self._task = asyncio.create_task(engine.run())
        self.engine = engine

    async def kill(self) -> None:
        """Kill -9: from here on it does nothing."""
        self.life.dead = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.engine = None

    def crash_reason(self) -> BaseException | None:
        """What ended the engine's own tasks, if anything did."""
        task = self._task
        if task is None or not task.done() or task.cancelled():
            return None
        return task.exception()


class SimulatedCluster:
    """Brokers on one database and one object store."""

    def __init__(
        self,
        *,
        rng: Random,
        clock: Clock,
        brokers: int,
        settings: LogSettings,
        limits: Limits | None = None,
        objects_grow: bool = True,
    ) -> None:
        self.rng = rng
        self.clock = clock
        self.settings = settings
        self.limits = limits
        self.database = MemoryDatabase()
        self.objects = MemoryObjects(clock=clock) if objects_grow else WholeObjects(clock=clock)
        self.meta_faults = MetadataFaults()
        self.object_faults = ObjectFaults()
        self.brokers = [SimulatedBroker(self, number) for number in range(brokers)]
        self.departed: list[SimulatedBroker] = []

    async def start(self) -> None:
        for broker in self.brokers:
            await broker.start()

    def stores(self, rng: Random, life: Life) -> tuple[MetadataStore, DeletableObjects]:
        """The stores as a process sees them, for as long as it lives."""
        store = MemoryStore(self.limits, database=self.database)
        return (
            GuardedStore(FaultyStore(store, rng, self.meta_faults), life.guard),
            GuardedObjects(
                FaultyObjects(self.objects, random=rng, faults=self.object_faults), life.guard
            ),
        )

    def living(self) -> list[str]:
        return [broker.engine.incarnation for broker in self.brokers if broker.engine is not None]

    def engine(self) -> LogEngine | None:
        """Some broker's engine; None while that broker is down."""
        return self.rng.choice(self.brokers).engine

    async def kill_one(self) -> None:
        number = self.rng.randrange(len(self.brokers))
        old = self.brokers[number]
        if old.engine is None:
            return
        fresh = SimulatedBroker(self, old.broker_id)
        self.brokers[number] = fresh
        await old.kill()
        self.departed.append(old)
        await asyncio.sleep(self.rng.uniform(0, 5))
        while fresh.engine is None:
            try:
                await fresh.start()
            except KafkaError:  # a store is down: the process ends and is started again
                await asyncio.sleep(1)

    def stop_faults(self) -> None:
        for faults in (self.meta_faults, self.object_faults):
            clean = type(faults)()
            for name in type(faults).__slots__:
                setattr(faults, name, getattr(clean, name))

    def check_engines_live(self) -> None:
        for broker in self.brokers:
            if (reason := broker.crash_reason()) is not None:
                raise reason

    async def stop(self) -> None:
        for broker in [*self.brokers, *self.departed]:
            await broker.kill()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)
