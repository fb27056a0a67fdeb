"""What goes wrong in a cluster: brokers, the ways between them and others, and the stores."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from random import Random

from peers.service import Service
from peers.toxiproxy import Direction, Proxy
from tests.system.faults.cluster import SESSION_SECONDS, FaultyCluster, Way
from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.cluster import SETTINGS

PAST_EVERY_TIMEOUT = SESSION_SECONDS + (SETTINGS["orphan_grace_ms"] + 1_000) / 1000
"""After this a broker's session has ended, the others have missed it long enough and fenced it."""

STOP_SECONDS = 5.0
"""What a store has to end by itself: with what else goes wrong that is to be less than what the
members of groups wait (``LONG_MS``)."""

DIRECTIONS: Sequence[Direction] = ("upstream", "downstream")
LATE_MS = 300
LANES = 2
"""How many go on at once, each on its own."""
AT_ONCE = (1, 1, 2)
"""How many harms a lane does together, each as likely as it is often here."""


class ClusterHarm(Enum):
    KILL = "broker killed"
    PAUSE = "broker stopped"
    LONG_PAUSE = "broker stopped past its session"
    CUT_OBJECTS = "object store cut off"
    SILENCE_OBJECTS = "object store silent"
    DELAY_OBJECTS = "object store slow"
    CUT_METADATA = "metadata cut off"
    SILENCE_METADATA = "metadata silent"
    DELAY_METADATA = "metadata slow"
    CUT_CLIENTS = "clients cut off"
    SILENCE_CLIENTS = "clients silent"
    DELAY_CLIENTS = "clients slow"
    RESTART_OBJECTS = "object store restarted"
    RESTART_METADATA = "metadata restarted"
    FREEZE_METADATA = "metadata frozen"


class ClusterNemesis:
    """Does one harm after another, alone and up to four together, in rotation."""

    def __init__(self, cluster: FaultyCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._free = list(cluster.brokers.values())
        self._deck: list[ClusterHarm] = []
        self._ways = {way: asyncio.Lock() for way in Way}
        self._servers = {way: asyncio.Lock() for way in (Way.OBJECTS, Way.METADATA)}
        self.done: Counter[ClusterHarm] = Counter()
        self._under_way = 0
        self.together = 0
        """How often several harms were done at once."""

    async def run(self, stop: asyncio.Event) -> None:
        """Until ``stop`` and every kind of harm was done; then every broker and way is up."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(LANES):
                tasks.create_task(self._run_lane(stop))

    async def _run_lane(self, stop: asyncio.Event) -> None:
        while not stop.is_set() or len(self.done) < len(ClusterHarm):
            harms = [self._next() for _ in range(self._rng.choice(AT_ONCE))]
            self._under_way += len(harms)
            self.together += self._under_way > 1
            async with asyncio.TaskGroup() as tasks:
                for harm in harms:
                    tasks.create_task(self._do(harm))
            self._under_way -= len(harms)
            await asyncio.sleep(self._rng.uniform(0.5, 2.5))

    def _next(self) -> ClusterHarm:
        """Every kind comes before any comes again."""
        if not self._deck:
            self._deck = self._rng.sample(list(ClusterHarm), len(ClusterHarm))
        return self._deck.pop()

    async def _do(self, harm: ClusterHarm) -> None:
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        stores = self._cluster.stores
        match harm:
            case ClusterHarm.KILL:
                await self._with_broker(self._kill)
            case ClusterHarm.PAUSE:
                await self._with_broker(self._pause, self._rng.uniform(0.1, 2.0))
            case ClusterHarm.LONG_PAUSE:
                await self._with_broker(self._pause, PAST_EVERY_TIMEOUT)
            case ClusterHarm.CUT_OBJECTS:
                await self._with_way(Way.OBJECTS, Proxy.cut)
            case ClusterHarm.CUT_METADATA:
                await self._with_way(Way.METADATA, Proxy.cut)
            case ClusterHarm.CUT_CLIENTS:
                await self._with_way(Way.CLIENTS, Proxy.cut)
            case ClusterHarm.SILENCE_OBJECTS:
                await self._with_way(Way.OBJECTS, self._silence)
            case ClusterHarm.SILENCE_METADATA:
                await self._with_way(Way.METADATA, self._silence)
            case ClusterHarm.SILENCE_CLIENTS:
                await self._with_way(Way.CLIENTS, self._silence)
            case ClusterHarm.DELAY_OBJECTS:
                await self._with_way(Way.OBJECTS, self._delay)
            case ClusterHarm.DELAY_METADATA:
                await self._with_way(Way.METADATA, self._delay)
            case ClusterHarm.DELAY_CLIENTS:
                await self._with_way(Way.CLIENTS, self._delay)
            case ClusterHarm.RESTART_OBJECTS:
                async with self._servers[Way.OBJECTS]:
                    await self._restart(stores.objects)
            case ClusterHarm.RESTART_METADATA:
                async with self._servers[Way.METADATA]:
                    await self._restart(stores.metadata)
            case ClusterHarm.FREEZE_METADATA:
                async with self._servers[Way.METADATA]:
                    await self._freeze(stores.metadata)
        self.done[harm] += 1

    async def _with_broker(self, how: Callable[..., Awaitable[None]], *arguments: float) -> None:
        while not self._free:
            await asyncio.sleep(0.1)
        broker = self._free.pop(self._rng.randrange(len(self._free)))
        assert broker.process is not None
        assert broker.process.poll() is None, f"broker {broker.id} ended by itself"
        await how(broker, *arguments)
        self._free.append(broker)

    async def _kill(self, broker: ServeProcess) -> None:
        await broker.kill()
        await asyncio.sleep(self._rng.choice([0, 0.3, SESSION_SECONDS + 1]))
        await self._cluster.start(broker)

    async def _pause(self, broker: ServeProcess, seconds: float) -> None:
        broker.pause()
        await asyncio.sleep(seconds)
        if self._rng.random() < 0.2:
            await self._kill(broker)
        else:
            broker.resume()

    async def _with_way(self, way: Way, harm: Callable[[Proxy], object]) -> None:
        """Harm what lies between one broker and another party, or between all brokers and it."""
        brokers: Sequence[int] = list(self._cluster.brokers)
        if self._rng.random() < 0.7:
            brokers = [self._rng.choice(brokers)]
        proxies = [self._cluster.proxies[broker, way] for broker in brokers]
        async with self._ways[way]:
            for proxy in proxies:
                await asyncio.to_thread(harm, proxy)
            await asyncio.sleep(self._seconds())
            for proxy in proxies:
                await asyncio.to_thread(proxy.heal)

    def _silence(self, proxy: Proxy) -> None:
        """Nothing goes through: neither way, or only questions, whose answers are lost.

        Answers are late for a moment before, so that some are under way when they are lost.
        """
        proxy.delay(LATE_MS)
        time.sleep(self._rng.uniform(1, 3) * LATE_MS / 1000)
        proxy.swallow(direction="downstream")
        if self._rng.random() < 0.3:
            proxy.swallow(direction="upstream")

    def _delay(self, proxy: Proxy) -> None:
        most = self._rng.choice([50, 300, 1_500])
        directions = self._rng.sample(DIRECTIONS, self._rng.randint(1, len(DIRECTIONS)))
        for direction in directions:
            proxy.delay(most // 2, jitter=most // 2, direction=direction)

    def _seconds(self) -> float:
        """Most harms pass before anybody gives up; some last until a broker is given up.

        After the shortest ones a broker learns at once that an answer is lost, and asks again
        while the producer still waits: that is when something might be done twice.
        """
        short, longer = self._rng.uniform(0.1, 0.8), self._rng.uniform(0.8, 3.0)
        return self._rng.choice([short, short, longer, 5.0])

    async def _restart(self, store: Service) -> None:
        orderly = partial(store.stop, grace=STOP_SECONDS)
        await asyncio.to_thread(store.kill if self._rng.random() < 0.7 else orderly)
        await asyncio.sleep(self._rng.choice([0, 1.0, SESSION_SECONDS + 1]))
        await asyncio.to_thread(store.start)

    async def _freeze(self, store: Service) -> None:
        store.freeze()
        await asyncio.sleep(self._seconds())
        store.thaw()
