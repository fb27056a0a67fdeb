"""Deletes expired offsets, and groups without members and offsets.

A sweep reads the offsets from the store while clients continue to commit. It never deletes an
offset that it has not read: it starts when all earlier writes are durable, it refuses answers of
the store that are older, and it skips groups that commit during the sweep.
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


class OffsetSweeper:
    """Sweeps all shards that ``shards`` returns, once per interval."""

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
        """By shard with a running sweep: the groups that have committed since the sweep began."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._settings.offsets_retention_check_interval_ms / 1000)
            for shard in list(self._shards()):
                try:
                    await self.sweep(shard)
                except (StoreError, KafkaError) as error:
                    logger.warning(
                        "Could not sweep the offsets of a shard",
                        extra={"shard": shard.number, "error": error},
                    )

    def note_commit(self, group: Group) -> None:
        """Exclude the group from a running sweep of its shard, because it commits offsets."""
        committed = self._committed_since.get(group.shard)
        if committed is not None:
            committed.add(group.name)

    async def sweep(self, shard: Shard[Group]) -> None:
        """Delete the expired offsets and the empty groups of one shard."""
        committing: set[str] = set()
        self._committed_since[shard] = committing
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
                if group is None or name in committing:
                    continue
                keep = self._settings.offsets_retention_minutes * MINUTE_MS
                expired = expiry.expired_keys(
                    group.machine, entries, topics, self._clock.now_ms(), keep
                )
                if len(expired) == len(entries):
                    self._delete_last_offsets(group, expired)
                elif expired:
                    self._writer.submit(ShardWrite(shard, dict.fromkeys(expired)))
            for group in list(shard.entries.values()):
                if group.name not in seen and group.name not in committing:
                    self._delete_last_offsets(group, ())
            await self._writer.flush(shard)
            for group in list(shard.entries.values()):
                shard.forget_if_empty(group)
        finally:
            self._committed_since.pop(shard, None)

    def _delete_last_offsets(self, group: Group, keys: Iterable[str]) -> None:
        """Delete a group's last offsets, and the group itself if it has no members either."""
        machine = group.machine
        has_waiting_requests = bool(group.tickets) or (
            machine is not None and machine.deadline is not None
        )
        if group.exists and not group.populated and not has_waiting_requests:
            self._writer.submit(group.removal())
        elif group.has_offsets:
            group.has_offsets = False
            changes: dict[str, bytes | None] = dict.fromkeys(keys)
            changes[group.records_prefix + OFFSETS_MARK] = None
            self._writer.submit(ShardWrite(group.shard, changes))
