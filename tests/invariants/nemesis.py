"""What goes wrong: brokers are killed and started again, or stopped for long and woken."""

import asyncio
from random import Random

from tests.invariants.clients import Connection, Lost
from tests.invariants.cluster import SESSION_SECONDS, SETTINGS, BrokerProcess, Cluster
from tests.invariants.history import History

PAST_EVERY_TIMEOUT = SESSION_SECONDS + (SETTINGS["orphan_grace_ms"] + 1_000) / 1000
"""After this a broker's session has ended, the others have missed it long enough and fenced it."""


class Nemesis:
    """Does harm to brokers that nobody else is doing harm to."""

    def __init__(self, cluster: Cluster, history: History, rng: Random) -> None:
        self._cluster = cluster
        self._history = history
        self._rng = rng
        self._harmed: set[int] = set()

    async def run(self, stop: asyncio.Event, *, trims: int | None) -> None:
        """Until ``stop``; afterwards every broker is up. ``trims`` is the partition to trim."""
        while not stop.is_set():
            await asyncio.sleep(self._rng.uniform(0.05, 0.6))
            match self._rng.choice(["kill", "pause", "long pause", "trim"]):
                case "kill":
                    await self._harm(self._kill)
                case "pause":
                    await self._harm(self._pause, self._rng.uniform(0.05, 0.5))
                case "long pause":
                    await self._harm(self._pause, PAST_EVERY_TIMEOUT)
                case "trim" if trims is not None:
                    await self._trim(trims)

    async def _harm(self, how: object, *arguments: float) -> None:
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
            await how(broker, *arguments)  # type: ignore[operator]
        finally:
            self._harmed.discard(broker.id)

    async def _kill(self, broker: BrokerProcess) -> None:
        await broker.kill()
        await asyncio.sleep(self._rng.choice([0, 0.3]))
        await broker.start()

    async def _pause(self, broker: BrokerProcess, seconds: float) -> None:
        broker.pause()
        await asyncio.sleep(seconds)
        if self._rng.random() < 0.2:
            await self._kill(broker)
        else:
            broker.resume()

    async def _trim(self, partition: int) -> None:
        broker = self._rng.choice(list(self._cluster.brokers.values()))
        try:
            connection = await Connection.open(broker)
            try:
                start, end = await connection.bounds(partition)
                await connection.trim(self._history, partition, self._rng.randint(start, end))
            finally:
                connection.close()
        except Lost:
            return
