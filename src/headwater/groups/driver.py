"""Driving machines: records to the store, replies to clients, timers in between.

Everything between an ``await`` and the next is one step of one group: a machine is called and
its effects are taken in at once. Replies wait for the records that were given out before them,
and the lease is checked just before they are returned.
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
from headwater.coordination.reads import scan_since
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
from headwater.groups.heartbeat_pace import HeartbeatPace
from headwater.groups.kinds import fill
from headwater.groups.machine import SUPERSEDED, Effects, Ticket
from headwater.groups.settings import GroupSettings
from headwater.groups.sweeper import Sweeper
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Scan, prefix_end
from headwater.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")

MARGIN: Final = 0.5


class Driver:
    """A coordinator without its requests; make it on the running loop.

    ``run`` in a task takes shards in the background and expires offsets; ``close`` gives the
    shards back, and has to come while clients can still be answered. ``configs`` are what was
    set for single groups; ``margin`` is how many seconds before the certain end of the broker's
    session it stops to answer from memory.
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
        self._image = TopicPatterns(topics)
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._metrics = metrics
        self._configs = configs
        self._loop = asyncio.get_running_loop()
        self._tickets = count(1)
        self._pace = HeartbeatPace()
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
        self._sweeper = Sweeper(
            meta, topics, clock, settings, self._writer, shards=self._owner.shards
        )

    async def run(self) -> None:
        """Hold what should be this broker's and expire offsets, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._owner.run())
            tasks.create_task(self._sweeper.run())

    async def close(self) -> None:
        """Answer what waits, let writes end, and give the shards to others."""
        await self._owner.close()
        for task in self._reloads:
            task.cancel()
        await asyncio.gather(*self._reloads, return_exceptions=True)
        self._timers.close()

    async def hand_over(self) -> None:
        """Give every group that another broker should have to it, at once."""
        await self._owner.hand_over_now()

    def shards_held(self) -> int:
        """How many shards of groups this broker holds that have any."""
        return sum(1 for shard in self._owner.shards() if shard.entries)

    # How requests find their group, and how answers leave

    async def _shard(self, group: str) -> Shard[Group]:
        check_group_id(group)
        return await self._owner.shard_for(group)

    async def _group(self, name: str) -> Group:
        return (await self._shard(name)).entry(name)

    async def _group_with_patterns(self, name: str, pattern: str | None = None) -> Group:
        """The group, once every pattern that its machine may look at is matched to the topics."""
        while True:
            entry = await self._group(name)
            patterns: set[str] = set()
            if isinstance(entry.machine, ConsumerGroup):
                patterns.update(entry.machine.patterns)
            if pattern:
                patterns.add(pattern)
            if not patterns or self._image.ready(patterns):
                return entry
            await self._image.prepare(patterns)

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
            # A client that went away leaves its ticket to the machine, which answers nobody.
            entry.tickets.pop(ticket, None)
            self._tidy(entry)
        self._owner.check_lease(entry.shard)
        return reply

    async def _answer(self, entry: Group, reply: T) -> T:
        """Hand out a reply from memory, after the records that it rests on."""
        if entry.last_write is not None:
            reply = await entry.last_write.reply_when_done(reply)
        self._tidy(entry)
        self._owner.check_lease(entry.shard)
        return reply

    def _tidy(self, entry: Group) -> None:
        entry.shard.forget_if_empty(entry)

    # What machines give out

    def _apply(self, entry: Group, effects: Effects) -> None:
        """Raises ``GroupTooLarge``, and then nothing of the effects counts."""
        if any(len(value or b"") > VALUE_MAX_BYTES for value in effects.records.values()):
            raise self._roll_back(entry)
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

    # From the store to machines

    async def _load(self, shard: Shard[Group]) -> None:
        prefix = keys.group_records(shard.number)
        found = await scan_since(self._meta, prefix, prefix_end(prefix), shard.lease_revision)
        self._take_in(shard, found)

    def _roll_back(self, entry: Group) -> GroupTooLarge:
        """Make one group what the store has of it; its machine has gone on to what cannot be.

        The other groups of the shard do not notice.
        """
        shard, name = entry.shard, entry.name
        error = GroupTooLarge(
            f"a record of group {name} would have more than {VALUE_MAX_BYTES} bytes"
        )
        logger.warning("%s; the group stays as it was", error)
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
                self._take_in(shard, found)
        except (StoreError, KafkaError) as reason:
            error = CoordinatorNotAvailable(f"a group cannot be read again: {reason}")
            self._owner.resign(shard, error)
        finally:
            shard.reloading.discard(name)

    def _take_in(self, shard: Shard[Group], found: Scan) -> None:
        now = self._loop.time()
        for group in fill(shard, found.entries, self._settings, self._rng, now):
            if group.machine is None and group.records:
                # A change of kind that was written in part: nobody was told of it, and what there
                # is of it would come back as members of a group to come.
                prefix, records = group.records_prefix, group.records
                group.records = set()
                changes: dict[str, bytes | None] = {prefix + name: None for name in records}
                self._writer.submit(ShardWrite(shard, changes, torn_mark=prefix + TORN_MARK))
            self._timers.watch(group)
