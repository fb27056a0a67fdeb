"""Removing offsets that have had their time, and groups that have nothing left.

A sweep reads offsets from the store while clients go on to commit. It takes away nothing that it
did not read: what was submitted before it began is durable before it reads, an answer of the
store from before that is refused, and groups that commit after that are left to the next sweep.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from headwater.clock import Clock
from headwater.coordination.shards import Shard
from headwater.coordination.writer import ShardWriter
from headwater.coordination.writes import ShardWrite
from headwater.engine import Topics
from headwater.errors import KafkaError, StoreError
from headwater.groups import expiry
from headwater.groups.group import OFFSETS_MARK, Group
from headwater.groups.settings import GroupSettings
from headwater.meta.store import MetadataStore

logger = logging.getLogger(__name__)

MINUTE_MS: Final = 60_000


class Sweeper:
    """Sweeps the shards that ``shards`` gives, each time that the interval has passed."""

    def __init__(
        self,
        meta: MetadataStore,
        topics: Topics,
        clock: Clock,
        settings: GroupSettings,
        writer: ShardWriter,
        shards: Callable[[], Iterable[Shard[Group]]],
    ) -> None:
        self._meta = meta
        self._topics = topics
        self._clock = clock
        self._settings = settings
        self._writer = writer
        self._shards = shards
        self._committed_since: dict[Shard[Group], set[str]] = {}
        """By shard that is being swept: the groups that committed since its sweep began."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.offsets_retention_check_interval_ms / 1000)
            for shard in list(self._shards()):
                try:
                    await self.sweep(shard)
                except (StoreError, KafkaError) as error:
                    logger.warning("offsets of shard %d are not swept: %s", shard.number, error)

    def note_commit(self, group: Group) -> None:
        """Leave the group out of a sweep that is under way: it commits offsets."""
        committed = self._committed_since.get(group.shard)
        if committed is not None:
            committed.add(group.name)

    async def sweep(self, shard: Shard[Group]) -> None:
        """Remove what may go from one shard."""
        busy: set[str] = set()
        self._committed_since[shard] = busy
        try:
            await self._writer.flush(shard)
            seen = set()
            read = expiry.offsets_by_group(
                self._meta, shard.number, min_revision=shard.write_revision
            )
            async for name, entries in read:
                seen.add(name)
                topics = await expiry.existing_topics(self._topics, entries)
                if shard.resigned:
                    return
                group = shard.entries.get(name)
                if group is None or name in busy:
                    continue
                keep = self._settings.offsets_retention_minutes * MINUTE_MS
                due = expiry.due(group.machine, entries, topics, self._clock.now_ms(), keep)
                if len(due) == len(entries):
                    self._without_offsets(group, due)
                elif due:
                    self._writer.submit(ShardWrite(shard, dict.fromkeys(due)))
            for group in list(shard.entries.values()):
                if group.name not in seen and group.name not in busy:
                    self._without_offsets(group, ())
            await self._writer.flush(shard)
            for group in list(shard.entries.values()):
                shard.forget_if_empty(group)
        finally:
            self._committed_since.pop(shard, None)

    def _without_offsets(self, group: Group, keys: Iterable[str]) -> None:
        """A group loses its last offsets; with no members either it goes altogether."""
        machine = group.machine
        awaited = bool(group.tickets) or (machine is not None and machine.deadline is not None)
        if group.exists and not group.populated and not awaited:
            self._writer.submit(group.removal())
        elif group.has_offsets:
            group.has_offsets = False
            changes: dict[str, bytes | None] = dict.fromkeys(keys)
            changes[group.records_prefix + OFFSETS_MARK] = None
            self._writer.submit(ShardWrite(group.shard, changes))
