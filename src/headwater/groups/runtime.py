"""Runs the machines: writes their records, sends their replies and fires their timers.

A machine is called and its effects are applied without an ``await`` in between, so that each call
is atomic for its group. A reply waits until the records that were returned before it are durable,
and the lease is checked directly before the reply is sent.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from headwater.clock import Clock
from headwater.coordination.leases import ClusterMembers
from headwater.coordination.owner import ShardOwner
from headwater.coordination.shards import Shard
from headwater.coordination.timers import Timers
from headwater.coordination.writer import WriteMetrics
from headwater.coordination.writes import ShardWrite
from headwater.engine import Topics
from headwater.errors import (
    CoordinatorNotAvailable,
    GroupTooLarge,
    KafkaError,
    RequestSuperseded,
    StoreError,
)
from headwater.groups.bounds import VALUE_MAX_BYTES, check_group_id
from headwater.groups.configs import GroupConfigs
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.consumer.patterns import TopicPatterns
from headwater.groups.group import GROUPS, TORN_MARK, Group
from headwater.groups.heartbeat_limiter import HeartbeatLimiter
from headwater.groups.loading import load_groups
from headwater.groups.machine import SUPERSEDED, Effects, Ticket
from headwater.groups.settings import GroupSettings
from headwater.groups.sweeper import OffsetSweeper
from headwater.meta import keys
from headwater.meta.scan import scan_since
from headwater.meta.store import MetadataStore, Scan, prefix_end
from headwater.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")

MARGIN: Final = 0.5


class CoordinatorRuntime:
    """The coordinator without its requests; create it on the running event loop.

    Keep ``run`` in a task: it takes shards and deletes expired offsets. Call ``close`` while
    clients can still be answered: it releases the shards. ``configs`` are the configs of single
    groups. Answers from memory stop ``margin`` seconds before the broker's session can end.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        members: ClusterMembers,
        topics: Topics,
        clock: Clock,
        rng: Random,
        settings: GroupSettings,
        metrics: Metrics,
        configs: GroupConfigs | None = None,
        margin: float = MARGIN,
    ) -> None:
        self._meta = meta
        self._topics = topics
        self._topic_patterns = TopicPatterns(topics)
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._metrics = metrics
        self._configs = configs
        self._loop = asyncio.get_running_loop()
        self._tickets = count(1)
        self._heartbeat_limiter = HeartbeatLimiter()
        self._reloads: set[asyncio.Task[None]] = set()
        self._timers = Timers(self._expire)
        self._owner = ShardOwner(
            meta,
            members,
            GROUPS,
            metrics=WriteMetrics(metrics.group_writes, metrics.group_write_seconds),
            incarnation=f"{members.node_id}-{rng.getrandbits(64):016x}",
            load=self._load,
            margin=margin,
        )
        self._writer = self._owner.writer
        self._sweeper = OffsetSweeper(
            meta, topics, clock, settings, self._writer, shards=self._owner.shards
        )

    async def run(self) -> None:
        """Own the shards that are this broker's and delete expired offsets, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._owner.run())
            tasks.create_task(self._sweeper.run())

    async def close(self) -> None:
        """Answer waiting requests, finish writes, and release the shards to other brokers."""
        await self._owner.close()
        for task in self._reloads:
            task.cancel()
        await asyncio.gather(*self._reloads, return_exceptions=True)
        self._timers.close()

    async def hand_over(self) -> None:
        """Hand over every group that another broker should coordinate, at once."""
        await self._owner.hand_over_now()

    def shards_held(self) -> int:
        """Number of owned shards that have at least one group."""
        return sum(1 for shard in self._owner.shards() if shard.entries)

    # Finding the group of a request, and sending replies

    async def _shard(self, group: str) -> Shard[Group]:
        check_group_id(group)
        return await self._owner.shard_for(group)

    async def _group(self, name: str) -> Group:
        return (await self._shard(name)).entry(name)

    async def _group_with_patterns(self, name: str, pattern: str | None = None) -> Group:
        """The group, after every pattern that its machine may need is matched to the topics."""
        while True:
            entry = await self._group(name)
            patterns: set[str] = set()
            if isinstance(entry.machine, ConsumerGroup):
                patterns.update(entry.machine.patterns)
            if pattern:
                patterns.add(pattern)
            if not patterns or self._topic_patterns.ready(patterns):
                return entry
            await self._topic_patterns.prepare(patterns)

    def _now(self) -> tuple[float, int]:
        return self._loop.time(), self._clock.now_ms()

    def _settings_of(self, group: str) -> GroupSettings:
        configs = self._configs
        if configs is None or not configs.of(group):
            return self._settings
        return replace(
            self._settings,
            consumer_session_timeout_ms=configs.session_timeout_ms(group),
            consumer_heartbeat_interval_ms=configs.heartbeat_interval_ms(group),
        )

    def _issue(self, entry: Group) -> tuple[Ticket, "asyncio.Future[Any]"]:
        ticket, future = Ticket(next(self._tickets)), self._loop.create_future()
        entry.tickets[ticket] = future
        return ticket, future

    async def _reply(self, entry: Group, ticket: Ticket, future: "asyncio.Future[T]") -> T:
        try:
            reply = await future
        finally:
            # If the client has disconnected, the machine's later answer has no receiver.
            entry.tickets.pop(ticket, None)
            self._tidy(entry)
        self._owner.check_lease(entry.shard)
        return reply

    async def _answer(self, entry: Group, reply: T) -> T:
        """Send a reply from memory, when the records that it depends on are durable."""
        if entry.last_write is not None:
            reply = await entry.last_write.reply_when_done(reply)
        self._tidy(entry)
        self._owner.check_lease(entry.shard)
        return reply

    def _tidy(self, entry: Group) -> None:
        entry.shard.forget_if_empty(entry)

    # Effects of machines

    def _apply(self, entry: Group, effects: Effects) -> None:
        """Apply the effects of a call; raises ``GroupTooLarge`` without applying any."""
        if any(len(value or b"") > VALUE_MAX_BYTES for value in effects.records.values()):
            raise self._reload_oversized(entry)
        if effects.become is not None:
            entry.machine = effects.become
        if effects.records:
            self._store(entry, effects.records)
        for ticket, reply in effects.replies:
            future = entry.tickets.pop(ticket, None)
            if future is None or future.done():
                continue
            if reply is SUPERSEDED:
                future.set_exception(RequestSuperseded())
                continue
            if entry.last_write is None or entry.last_write.done:
                future.set_result(reply)
            else:
                entry.last_write.waiting.append((future, reply))
        self._timers.watch(entry)

    def _store(self, entry: Group, records: Mapping[str, bytes | None]) -> None:
        for name, value in records.items():
            if value is None:
                entry.records.discard(name)
            else:
                entry.records.add(name)
        prefix = entry.records_prefix
        write = ShardWrite(
            entry.shard,
            {prefix + name: value for name, value in records.items()},
            torn_mark=prefix + TORN_MARK,
        )
        entry.last_write = write
        self._writer.submit(write)

    def _expire(self, entry: Group, now: float) -> None:
        if entry.machine is not None and self._owner.lease_is_valid(entry.shard):
            with suppress(GroupTooLarge):
                self._apply(entry, entry.machine.expire(now, self._clock.now_ms()))
                self._tidy(entry)

    # Loading machines from the store

    async def _load(self, shard: Shard[Group]) -> None:
        prefix = keys.group_records(shard.number)
        found = await scan_since(self._meta, prefix, prefix_end(prefix), shard.lease_revision)
        self._restore_groups(shard, found)

    def _reload_oversized(self, entry: Group) -> GroupTooLarge:
        """Drop one group's machine, whose state is too large to write, and read the group again.

        The other groups of the shard are not affected.
        """
        shard, name = entry.shard, entry.name
        error = GroupTooLarge(
            f"a record of group {name} would have more than {VALUE_MAX_BYTES} bytes"
        )
        logger.warning("A group is too large and keeps its old state", extra={"error": error})
        entry.machine = None
        entry.refuse(error)
        shard.forget(entry)
        shard.reloading.add(name)
        task = self._loop.create_task(self._reload(shard, name))
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)
        return error

    async def _reload(self, shard: Shard[Group], name: str) -> None:
        prefix = keys.records_of_group(shard.number, name)
        try:
            await self._writer.flush(shard)
            found = await scan_since(self._meta, prefix, prefix_end(prefix), shard.write_revision)
            if not shard.resigned:
                self._restore_groups(shard, found)
        except (StoreError, KafkaError) as reason:
            error = CoordinatorNotAvailable(f"a group could not be read again: {reason}")
            self._owner.resign(shard, error)
        finally:
            shard.reloading.discard(name)

    def _restore_groups(self, shard: Shard[Group], found: Scan) -> None:
        now = self._loop.time()
        for group in load_groups(shard, found.entries, self._settings, self._rng, now):
            if group.machine is None and group.records:
                # A change of the group's kind was written only in part, and no client has received
                # it. The remaining records would later appear as members of a new group.
                prefix, records = group.records_prefix, group.records
                group.records = set()
                changes: dict[str, bytes | None] = {prefix + name: None for name in records}
                self._writer.submit(ShardWrite(shard, changes, torn_mark=prefix + TORN_MARK))
            self._timers.watch(group)
