"""The coordinator of groups: requests to machines, records to the store, replies to clients.

Everything between an ``await`` and the next is one step of one group: a machine is called and
its effects are taken in at once. Replies wait for the records that were given out before them,
and are vouched for by the lease just before they are returned.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

from headwater.clock import Clock
from headwater.engine import Topics
from headwater.errors import CoordinatorNotAvailable, KafkaError, NotCoordinator, StoreError
from headwater.groups import offsets
from headwater.groups.classic import ClassicGroup
from headwater.groups.consumer import ConsumerGroup
from headwater.groups.keeper import Keeper
from headwater.groups.kinds import HAS_OFFSETS, fill
from headwater.groups.leases import Members
from headwater.groups.machine import Effects, Ticket
from headwater.groups.requests import (
    ClassicDescription,
    CommitRequest,
    CommittedOffset,
    ConsumerDescription,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    Listed,
    Partition,
    SyncReply,
    SyncRequest,
)
from headwater.groups.settings import GroupSettings
from headwater.groups.shards import OFFSETS_MARK, Group, Shard, Write, shard_of
from headwater.groups.sweeper import Sweeper
from headwater.groups.timers import Timers
from headwater.meta import keys
from headwater.meta.store import MetadataStore, prefix_end
from headwater.telemetry.metrics import Metrics
from headwater.wire.error_codes import Code

logger = logging.getLogger(__name__)

T = TypeVar("T")

MARGIN: Final = 0.5


class Coordinator:
    """The ``GroupService`` of one broker; make it on the running loop.

    ``run`` in a task takes shards in the background and expires offsets; ``close`` gives the
    shards back, and has to come while clients can still be answered.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        members: Members,
        topics: Topics,
        clock: Clock,
        rng: Random,
        settings: GroupSettings,
        metrics: Metrics,
        margin: float = MARGIN,
    ) -> None:
        self._meta = meta
        self._topics = topics
        self._clock = clock
        self._rng = rng
        self._settings = settings
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._tickets = count(1)
        self._timers = Timers(self._expire)
        self._keeper = Keeper(
            meta,
            members,
            metrics,
            incarnation=f"{members.node_id}-{rng.getrandbits(64):016x}",
            load=self._load,
            margin=margin,
        )
        self._writer = self._keeper.writer
        self._sweeper = Sweeper(
            meta, topics, clock, settings, self._writer, shards=self._keeper.shards
        )

    async def run(self) -> None:
        """Hold what should be this broker's and expire offsets, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keeper.run())
            tasks.create_task(self._sweeper.run())

    async def close(self) -> None:
        """Answer what waits, let writes end, and give the shards to others."""
        await self._keeper.close()
        self._timers.close()

    def coordinator(self, key: str) -> int:
        return self._keeper.coordinator(key)

    # Classic members

    async def join(self, group: str, request: JoinRequest) -> JoinReply:
        entry = await self._group(group)
        ticket, future = self._issue(entry)
        now, now_ms = self._now()
        machine: Any = entry.machine
        if machine is None or (machine.empty and not isinstance(machine, ClassicGroup)):
            machine = self._new_classic(group)
            self._replace(entry, machine)
        if isinstance(machine, ClassicGroup):
            effects = machine.join(ticket, request, now, now_ms)
        else:
            effects = machine.join(ticket, request, self._topics, now, now_ms)
        self._apply(entry, effects)
        return await self._reply(entry, ticket, future)

    async def sync(self, group: str, request: SyncRequest) -> SyncReply:
        entry = await self._group(group)
        ticket, future = self._issue(entry)
        now, now_ms = self._now()
        machine = self._classic_view(entry)
        self._apply(entry, machine.sync(ticket, request, now, now_ms))
        return await self._reply(entry, ticket, future)

    async def heartbeat(self, group: str, request: HeartbeatRequest) -> int:
        entry = await self._group(group)
        machine = self._classic_view(entry)
        now = self._loop.time()
        if isinstance(machine, ClassicGroup):
            code = machine.heartbeat(request, now)
        else:
            code = machine.classic_heartbeat(request, now)
        self._timers.watch(entry)
        return await self._answer(entry, code)

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveReply:
        entry = await self._group(group)
        machine = self._classic_view(entry)
        reply, effects = machine.leave(members, *self._now())
        self._apply(entry, effects)
        return await self._answer(entry, reply)

    # Members of the consumer protocol

    async def consumer_heartbeat(
        self, group: str, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeatReply:
        entry = await self._group(group)
        machine = entry.machine
        now, now_ms = self._now()
        if not isinstance(machine, ConsumerGroup):
            if machine is not None and not machine.empty:
                message = f"Group {group} is not a consumer group."
                refusal = ConsumerHeartbeatReply(error=Code.GROUP_ID_NOT_FOUND, message=message)
                return await self._answer(entry, refusal)
            machine = ConsumerGroup(group, self._settings, self._rng)
            if request.epoch == 0:
                self._replace(entry, machine)
        reply, effects = machine.heartbeat(request, self._topics, now, now_ms)
        self._apply(entry, effects)
        return await self._answer(entry, reply)

    # Offsets

    async def commit(self, request: CommitRequest) -> Mapping[Partition, int]:
        shard = await self._shard(request.group)
        now, now_ms = self._now()
        code = offsets.check_commit(shard.groups.get(request.group), request, now)
        entry = shard.group(request.group)
        if code != Code.NONE:
            return await self._answer(entry, dict.fromkeys(request.offsets, code))
        most = self._settings.offset_metadata_max_bytes
        changes, codes = offsets.commit(
            entry, request, self._topics, metadata_max=most, now_ms=now_ms
        )
        if not changes:
            return await self._answer(entry, codes)
        if not entry.has_offsets:
            entry.has_offsets = True
            changes[entry.records_prefix + OFFSETS_MARK] = HAS_OFFSETS
        if shard.committed_since is not None:
            shard.committed_since.add(request.group)
        codes = await self._durable(Write(shard, changes), codes)
        self._metrics.offset_commits.inc()
        return codes

    async def fetch(
        self,
        group: str,
        partitions: Collection[Partition] | None,
        *,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> tuple[int, Mapping[Partition, CommittedOffset]]:
        shard = await self._shard(group)
        entry = shard.groups.get(group)
        if entry is not None and entry.machine is not None:
            code = entry.machine.check_fetch(member_id, epoch)
            if code != Code.NONE:
                return await self._answer(entry, (code, {}))
        found: Mapping[Partition, CommittedOffset]
        if entry is None or not entry.has_offsets:
            found = {partition: CommittedOffset() for partition in partitions or ()}
        else:
            try:
                found = await offsets.read(
                    self._meta, entry.offsets_prefix, partitions, self._topics
                )
            except (StoreError, KafkaError) as error:
                raise CoordinatorNotAvailable(f"offsets cannot be read: {error}") from error
        self._vouch(shard)
        return Code.NONE, found

    async def delete_offsets(
        self, group: str, partitions: Collection[Partition]
    ) -> tuple[int, Mapping[Partition, int]]:
        shard = await self._shard(group)
        entry = shard.groups.get(group)
        code = offsets.check_delete(entry)
        if entry is None or code != Code.NONE:
            self._vouch(shard)
            return code, {}
        changes, codes = offsets.delete(entry, partitions)
        if not changes:
            return await self._answer(entry, (code, codes))
        return await self._durable(Write(shard, changes), (code, codes))

    # Administration

    async def list(self) -> Sequence[Listed]:
        listed = []
        for shard in await self._keeper.obtain_all():
            if not self._keeper.vouched(shard):
                continue
            for group in shard.groups.values():
                machine = group.machine
                if not group.exists:
                    continue
                if machine is None:
                    listed.append(Listed(group.name, "", "Empty", "classic"))
                else:
                    listed.append(
                        Listed(group.name, machine.protocol_type, machine.state, machine.kind)
                    )
        return sorted(listed, key=lambda line: line.group)

    async def describe_classic(self, group: str) -> ClassicDescription:
        shard = await self._shard(group)
        entry = shard.groups.get(group)
        if entry is None or not entry.exists:
            self._vouch(shard)
            message = f"Group {group} not found."
            return ClassicDescription(error=Code.GROUP_ID_NOT_FOUND, message=message)
        machine = entry.machine
        if isinstance(machine, ClassicGroup):
            description = machine.describe()
        elif isinstance(machine, ConsumerGroup):
            description = machine.describe_classic()
        else:
            description = ClassicDescription(state="Empty")
        return await self._answer(entry, description)

    async def describe_consumer(self, group: str) -> ConsumerDescription:
        shard = await self._shard(group)
        entry = shard.groups.get(group)
        if entry is not None and isinstance(entry.machine, ConsumerGroup):
            return await self._answer(entry, entry.machine.describe(self._topics))
        self._vouch(shard)
        known = entry is not None and entry.exists
        message = f"Group {group} " + ("is not a consumer group." if known else "not found.")
        return ConsumerDescription(error=Code.GROUP_ID_NOT_FOUND, message=message)

    async def delete(self, group: str) -> int:
        shard = await self._shard(group)
        entry = shard.groups.get(group)
        if entry is None or not entry.exists:
            self._vouch(shard)
            return Code.GROUP_ID_NOT_FOUND
        if entry.populated:
            return await self._answer(entry, Code.NON_EMPTY_GROUP)
        code = await self._durable(entry.removal(), Code.NONE)
        self._tidy(entry)
        return code

    # How requests find their group, and how answers leave

    async def _shard(self, group: str) -> Shard:
        return self._keeper.held(group) or await self._keeper.obtain(shard_of(group))

    async def _group(self, name: str) -> Group:
        shard = self._keeper.held(name) or await self._keeper.obtain(shard_of(name))
        return shard.group(name)

    def _now(self) -> tuple[float, int]:
        return self._loop.time(), self._clock.now_ms()

    def _new_classic(self, name: str) -> ClassicGroup:
        return ClassicGroup(name, self._settings, self._rng, self._clock.now_ms())

    def _classic_view(self, entry: Group) -> Any:
        """The machine for a classic member's request; a blank one refuses as Kafka does."""
        return entry.machine if entry.machine is not None else self._new_classic(entry.name)

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
        self._vouch(entry.shard)
        return reply

    async def _answer(self, entry: Group, reply: T) -> T:
        """Hand out a reply from memory, after the records that it rests on."""
        write = entry.last_write
        if write is not None and not write.done:
            future: asyncio.Future[T] = self._loop.create_future()
            write.waiting.append((future, reply))
            reply = await future
        self._tidy(entry)
        self._vouch(entry.shard)
        return reply

    async def _durable(self, write: Write, reply: T) -> T:
        """Hand out a reply that is true once a write is durable, whoever has the lease then."""
        future: asyncio.Future[T] = self._loop.create_future()
        write.waiting.append((future, reply))
        self._writer.submit(write)
        return await future

    def _vouch(self, shard: Shard) -> None:
        if not self._keeper.vouched(shard):
            raise NotCoordinator("this broker's lease ran out before the answer")

    def _tidy(self, entry: Group) -> None:
        if entry.forgettable:
            entry.shard.forget(entry)

    # What machines give out

    def _apply(self, entry: Group, effects: Effects) -> None:
        if effects.become is not None:
            entry.machine = effects.become
        if effects.records:
            self._store(entry, effects.records)
        for ticket, reply in effects.replies:
            future = entry.tickets.pop(ticket, None)
            if future is None or future.done():
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
        write = Write(entry.shard, {prefix + name: value for name, value in records.items()})
        entry.last_write = write
        self._writer.submit(write)

    def _replace(self, entry: Group, machine: ClassicGroup | ConsumerGroup) -> None:
        """Put a fresh machine in the place of one without members."""
        if entry.records:
            self._store(entry, dict.fromkeys(entry.records))
        entry.machine = machine

    def _expire(self, entry: Group, now: float) -> None:
        if entry.machine is not None and self._keeper.vouched(entry.shard):
            self._apply(entry, entry.machine.expire(now, self._clock.now_ms()))
            self._tidy(entry)

    async def _load(self, shard: Shard) -> None:
        prefix = keys.group_records(shard.number)
        found = await self._meta.scan(prefix, prefix_end(prefix))
        fill(shard, found.entries, self._settings, self._rng, self._loop.time())
        for group in shard.groups.values():
            self._timers.watch(group)
