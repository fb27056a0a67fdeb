"""Coordinators that crash, pause and lose answers, and clients that check the answers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TypeVar

from headwater.clock import Clock
from headwater.coordination.leases import Lease
from headwater.errors import (
    CoordinatorNotAvailable,
    NotCoordinator,
    StoreError,
    UnknownOutcome,
)
from headwater.groups.coordinator import GroupCoordinator
from headwater.groups.group import GROUPS
from headwater.groups.settings import GroupSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import CommitResult, Decide, Entry, KeyChange, Limits, Scan, Session
from headwater.meta.values import decode
from headwater.telemetry.metrics import Metrics
from tests.support.groups.cluster import SharedTopics
from tests.support.meta.faulty import FaultyStore, MetadataFaults

T = TypeVar("T")

TTL = 6.0
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=100,
    consumer_session_timeout_ms=10_000,
    offsets_retention_check_interval_ms=5_000,
)


class Process:
    """Whether a process runs, is paused or is dead; only a running one reaches a store."""

    def __init__(self) -> None:
        self._runs = asyncio.Event()
        self._runs.set()
        self.dead = False

    def stop(self) -> None:
        self._runs.clear()

    def go_on(self) -> None:
        if not self.dead:
            self._runs.set()

    def kill(self) -> None:
        self.dead = True
        self._runs.clear()

    async def turn(self) -> None:
        await self._runs.wait()

    async def guard(self, call: Callable[[], Awaitable[T]]) -> T:
        await self.turn()
        try:
            result = await call()
        except StoreError:
            await self.turn()
            raise
        await self.turn()
        return result


class ProcessStore:
    """A store as one process sees it: calls stop with the process, some land late."""

    def __init__(
        self,
        database: MemoryDatabase,
        process: Process,
        rng: Random,
        faults: MetadataFaults,
        late: float,
    ) -> None:
        self._database = database
        self._process = process
        self._rng = rng
        self._late = late
        self._faults = faults
        self._inner = FaultyStore(MemoryStore(database=database), rng, faults)
        self._landing: set[asyncio.Task[None]] = set()

    @property
    def limits(self) -> Limits:
        return self._inner.limits

    async def get(self, key: str) -> Entry | None:
        return await self._process.guard(lambda: self._inner.get(key))

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        return await self._process.guard(
            lambda: self._inner.scan(start, end, limit=limit, reverse=reverse)
        )

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        async for page in self._inner.scan_pages(start, end, size=size):
            await self._process.turn()
            yield page

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await self._process.turn()
        if self._faults.delay and self._rng.random() < self._late:
            task = asyncio.create_task(self._land(domain, keys, decide))
            self._landing.add(task)
            task.add_done_callback(self._landing.discard)
            await asyncio.sleep(self._rng.uniform(0, 1))
            raise UnknownOutcome("it lands when nobody waits for it")
        return await self._process.guard(lambda: self._inner.transact(domain, keys, decide))

    async def _land(self, domain: int, keys: Sequence[str], decide: Decide[T]) -> None:
        await asyncio.sleep(self._rng.uniform(0, 12))
        with suppress(Exception):  # nobody hears how it ended
            await MemoryStore(database=self._database).transact(domain, keys, decide)

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        async for changes in self._inner.watch(prefix, after):
            yield await self._process.guard(partial(_now, changes))

    async def session(self, ttl: float) -> Session:
        await self._process.turn()
        now = asyncio.get_running_loop().time
        opened = now()
        name = self._database.open_session(ttl)

        async def renew() -> None:
            await self._process.turn()
            self._database.renew_session(name, ttl)

        async def end() -> None:
            self._database.end_session(name)

        return RenewedSession(name, ttl=ttl, opened=opened, now=now, renew=renew, end=end)

    async def close(self) -> None:
        return None


async def _now(value: T) -> T:
    return value


class CoordinatingBroker:
    """One run of one broker: membership, coordinator, and the process that both are in."""

    exclusive = False

    def __init__(self, world: "GroupsWorld", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.process = Process()
        self.session: Session | None = None
        self._listeners: list[Callable[[], None]] = []
        rng = Random(world.rng.random())
        self.meta = ProcessStore(world.database, self.process, rng, world.faults, world.late)
        self.groups = GroupCoordinator(
            meta=self.meta,
            members=self,
            topics=world.topics,
            clock=world.clock,
            rng=rng,
            settings=SETTINGS,
            metrics=Metrics(),
        )
        self._tasks = [
            asyncio.create_task(self.groups.run()),
            asyncio.create_task(self._stay_registered()),
        ]

    def chosen(self, shard: int) -> int:
        return max(self.world.live, key=lambda node: (node * 7919 + shard * 104_729) % 1009)

    def lives(self, broker_id: int) -> bool:
        return broker_id in self.world.live

    def listen(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def notify(self) -> None:
        for changed in self._listeners:
            changed()

    async def call(self, request: Callable[[GroupCoordinator], Awaitable[T]]) -> T:
        """Send a request; it is read when the process runs, and lost where it dies."""
        await self.process.turn()
        return await request(self.groups)

    async def _stay_registered(self) -> None:
        while True:
            if self.session is None or self.session.lost:
                with suppress(StoreError):
                    self.session = await self.meta.session(TTL)
                    self.world.see(self.node_id)
            await asyncio.sleep(1)
            if self.session is not None and self.session.lost:
                self.world.miss(self.node_id)

    async def kill(self) -> None:
        self.process.kill()
        await self.end_tasks()

    async def stop(self) -> None:
        """Stop in an orderly way, like a broker."""
        await self.groups.close()
        self.process.kill()
        await self.end_tasks()
        if self.session is not None:
            await self.session.close()

    async def end_tasks(self) -> None:
        if isinstance(self.session, RenewedSession):
            await self.session.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def crash_reason(self) -> BaseException | None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                return task.exception()
        return None


class GroupsWorld:
    """Brokers on one database."""

    def __init__(self, rng: Random, clock: Clock, *, brokers: int, late: float) -> None:
        self.rng = rng
        self.clock = clock
        self.late = late
        self.database = MemoryDatabase()
        self.faults = MetadataFaults()
        self.topics = SharedTopics(t=64)
        self.live: set[int] = set(range(brokers))
        self.brokers = [CoordinatingBroker(self, number) for number in range(brokers)]

    def see(self, node_id: int) -> None:
        self._live_changed(self.live | {node_id})

    def miss(self, node_id: int) -> None:
        if len(self.live) > 1:
            self._live_changed(self.live - {node_id})

    def _live_changed(self, live: set[int]) -> None:
        if live != self.live:
            self.live = live
            for broker in self.brokers:
                broker.notify()

    def holder(self, group: str) -> int | None:
        """The broker with the lease in the store, even if its session has expired there."""
        entry = self.database.entries.get(GROUPS.lease_key(GROUPS.shard_of(group)))
        return None if entry is None else decode(Lease, entry.value).broker

    async def ask(
        self, group: str, request: Callable[[GroupCoordinator], Awaitable[T]]
    ) -> tuple[CoordinatingBroker, T]:
        """Find the coordinator as a client does, and send it a request, until one answers."""
        while True:
            some = self.rng.choice(self.brokers)
            broker = self.brokers[some.groups.coordinator(group)]
            try:
                async with asyncio.timeout(8):
                    return broker, await broker.call(request)
            except (NotCoordinator, CoordinatorNotAvailable, TimeoutError):
                await asyncio.sleep(self.rng.uniform(0.05, 0.5))

    async def trouble(self, until: float) -> None:
        """Kill, stop and restart brokers at random."""
        loop, rng = asyncio.get_running_loop(), self.rng
        while loop.time() < until:
            await asyncio.sleep(rng.uniform(0, 8))
            number = rng.randrange(len(self.brokers))
            broker = self.brokers[number]
            match rng.choice(("kill", "pause", "stop", "store")):
                case "kill":
                    await broker.kill()
                    await asyncio.sleep(rng.uniform(0, 10))
                    self.miss(number)
                    self.brokers[number] = CoordinatingBroker(self, number)
                case "pause":
                    broker.process.stop()
                    await asyncio.sleep(rng.uniform(0, 2 * TTL))
                    broker.process.go_on()
                case "stop":
                    await broker.stop()
                    self.miss(number)
                    self.brokers[number] = CoordinatingBroker(self, number)
                case "store":
                    self.faults.unavailable = rng.uniform(0, 1)
                    await asyncio.sleep(rng.uniform(0, 8))
                    self.faults.unavailable = 0.02

    def start_faults(self) -> None:
        self.faults.delay = 0.05
        self.faults.lost_answer = 0.05
        self.faults.lost_request = 0.02
        self.faults.unavailable = 0.02
        self.faults.watch_delay = 1.0

    def stop_faults(self) -> None:
        for name in MetadataFaults.__slots__:
            setattr(self.faults, name, 0.0)

    async def end(self) -> None:
        for broker in self.brokers:
            if (reason := broker.crash_reason()) is not None:
                raise reason
            await broker.kill()
