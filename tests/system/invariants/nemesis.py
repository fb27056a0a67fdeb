"""What goes wrong: brokers are killed and started again, or stopped for long and woken."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from random import Random

from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.cluster import SESSION_SECONDS, SETTINGS, LocalCluster
from tests.system.invariants.history import History
from tests.system.invariants.producers.clients import BrokerConnection, Lost

PAST_EVERY_TIMEOUT = SESSION_SECONDS + (SETTINGS["orphan_grace_ms"] + 1_000) / 1000
"""After this a broker's session has ended, the others have missed it long enough and fenced it."""

TRIMMED = 0
"""The partition whose log start moves; in the others everything stays readable."""


class BrokerHarm(Enum):
    KILL = auto()
    PAUSE = auto()
    LONG_PAUSE = auto()
    TRIM = auto()


class BrokerNemesis:
    """Does harm to brokers that nobody else is doing harm to."""

    def __init__(self, cluster: LocalCluster, history: History, rng: Random) -> None:
        self._cluster = cluster
        self._history = history
        self._rng = rng
        self._harmed: set[int] = set()

    async def run(self, harms: Sequence[BrokerHarm], stop: asyncio.Event) -> None:
        """Until ``stop``; afterwards every broker is up."""
        while not stop.is_set():
            await asyncio.sleep(self._rng.uniform(0.05, 0.5))
            match self._rng.choice(harms):
                case BrokerHarm.KILL:
                    await self._harm(self._kill)
                case BrokerHarm.PAUSE:
                    await self._harm(self._pause, self._rng.uniform(0.05, 0.5))
                case BrokerHarm.LONG_PAUSE:
                    await self._harm(self._pause, PAST_EVERY_TIMEOUT)
                case BrokerHarm.TRIM:
                    await self._trim(TRIMMED)

    async def _harm(self, how: Callable[..., Awaitable[None]], *arguments: float) -> None:
        free = [
            broker for broker in self._cluster.brokers.values() if broker.id not in self._harmed
        ]
        if not free:
            return
        broker = self._rng.choice(free)
        assert broker.process is not None
        assert broker.process.poll() is None, f"broker {broker.id} ended by itself"
        self._harmed.add(broker.id)
        try:
            await how(broker, *arguments)
        finally:
            self._harmed.discard(broker.id)

    async def _kill(self, broker: ServeProcess) -> None:
        await broker.kill()
        await asyncio.sleep(self._rng.choice([0, 0.3]))
        await broker.start()

    async def _pause(self, broker: ServeProcess, seconds: float) -> None:
        broker.pause()
        await asyncio.sleep(seconds)
        if self._rng.random() < 0.2:
            await self._kill(broker)
        else:
            broker.resume()

    async def _trim(self, partition: int) -> None:
        broker = self._rng.choice(list(self._cluster.brokers.values()))
        with contextlib.suppress(Lost):
            async with await BrokerConnection.open(broker) as connection:
                start, end = await connection.bounds(partition)
                await connection.trim(self._history, partition, self._rng.randint(start, end))
