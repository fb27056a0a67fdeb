"""A second kind of state in shards, as small as one can be: names with a number that grows."""

import asyncio
from typing import Any, Final

from headwater.coordination.leases import ClusterMembers
from headwater.coordination.owner import ShardOwner
from headwater.coordination.shards import Shard, ShardKind
from headwater.coordination.writer import WriteMetrics
from headwater.coordination.writes import ShardWrite
from headwater.errors import KafkaError
from headwater.meta.scan import scan_since
from headwater.meta.store import MetadataStore, prefix_end
from headwater.telemetry.metrics import Counter, Histogram


def records(shard: int) -> str:
    """The prefix of a shard's tallies in the store."""
    return f"tally-records/{shard:04d}/"


class SharedTally:
    """One number. No request ever waits for it other than for a write."""

    def __init__(self, shard: "Shard[SharedTally]", name: str) -> None:
        self.shard = shard
        self.name = name
        self.value = 0
        self.last_write: ShardWrite | None = None

    @property
    def is_empty(self) -> bool:
        return self.value == 0

    def refuse(self, error: KafkaError) -> None:
        """Nothing to refuse: the writer fails the writes."""


TALLIES: Final = ShardKind(noun="tally", lease_prefix="tally-leases/", count=5, make=SharedTally)


class Tallies:
    """The tallies of one broker."""

    def __init__(self, meta: MetadataStore, members: ClusterMembers, incarnation: str) -> None:
        self._meta = meta
        self.metrics = WriteMetrics(Counter(), Histogram())
        self.owner = ShardOwner(
            meta,
            members,
            TALLIES,
            metrics=self.metrics,
            incarnation=incarnation,
            load=self._load,
            margin=0.5,
        )
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.owner.run())

    async def stop(self) -> None:
        """Hand all shards over, like a broker that stops in an orderly way."""
        await self.owner.close()
        await self.crash()

    async def crash(self) -> None:
        """Do nothing any more; the leases stay until the broker's session has ended."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])

    async def add(self, name: str) -> int:
        """Raise a tally by one; returns the durable value."""
        shard = await self.owner.shard_for(name)
        tally = shard.entry(name)
        tally.value += 1
        key = records(shard.number) + name
        tally.last_write = ShardWrite(shard, {key: b"%d" % tally.value})
        return await self.owner.writer.commit(tally.last_write, tally.value)

    async def read(self, name: str) -> int:
        """A tally from memory, as far as it is durable."""
        shard = await self.owner.shard_for(name)
        tally = shard.entry(name)
        value = tally.value
        if tally.last_write is not None:
            value = await tally.last_write.reply_when_done(value)
        self.owner.check_lease(shard)
        return value

    async def _load(self, shard: Shard[SharedTally]) -> None:
        prefix = records(shard.number)
        found = await scan_since(self._meta, prefix, prefix_end(prefix), shard.lease_revision)
        for entry in found.entries:
            shard.entry(entry.key.removeprefix(prefix)).value = int(entry.value)
