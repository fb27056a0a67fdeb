"""The coordinator of groups: passes each request to its group's machine or offsets."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from headwater.coordination.writes import ShardWrite
from headwater.errors import CoordinatorNotAvailable, KafkaError, StoreError
from headwater.groups import offsets
from headwater.groups.classic.group import ClassicGroup
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.group import OFFSETS_MARK, Group
from headwater.groups.loading import HAS_OFFSETS
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
    ListedGroup,
    Partition,
    SyncReply,
    SyncRequest,
)
from headwater.groups.runtime import CoordinatorRuntime
from headwater.wire.error_codes import Code
from headwater.work_budget import Turn, yield_turn


class GroupCoordinator(CoordinatorRuntime):
    """The ``GroupService`` of one broker; ``CoordinatorRuntime`` says how to run and close it."""

    def coordinator(self, key: str) -> int:
        return self._owner.coordinator(key)

    # Classic members

    async def join(self, group: str, request: JoinRequest) -> JoinReply:
        entry = await self._group_with_patterns(group)
        ticket, future = self._issue(entry)
        now, now_ms = self._now()
        if entry.machine is None:
            entry.machine = self._new_classic(group)
        machine = self._machine(entry)
        if isinstance(machine, ConsumerGroup):
            effects = machine.join(ticket, request, self._topic_patterns, now, now_ms)
        else:
            effects = machine.join(ticket, request, now, now_ms)
        self._apply(entry, effects)
        return await self._reply(entry, ticket, future)

    async def sync(self, group: str, request: SyncRequest) -> SyncReply:
        entry = await self._group(group)
        ticket, future = self._issue(entry)
        now, now_ms = self._now()
        machine = self._machine(entry)
        self._apply(entry, machine.sync(ticket, request, now, now_ms))
        return await self._reply(entry, ticket, future)

    async def heartbeat(self, group: str, request: HeartbeatRequest) -> int:
        entry = await self._group(group)
        machine = self._machine(entry)
        now = self._loop.time()
        if isinstance(machine, ClassicGroup):
            code = machine.heartbeat(request, now)
        else:
            code = machine.classic_heartbeat(request, now)
        self._timers.watch(entry)
        return await self._answer(entry, code)

    async def leave(self, group: str, members: Sequence[LeavingMember]) -> LeaveReply:
        entry = await self._group(group)
        machine = self._machine(entry)
        reply, effects = machine.leave(members, *self._now())
        self._apply(entry, effects)
        return await self._answer(entry, reply)

    # Members of the consumer protocol

    async def consumer_heartbeat(
        self, group: str, request: ConsumerHeartbeatRequest
    ) -> ConsumerHeartbeatReply:
        if request.epoch >= 0:
            delay = self._heartbeat_limiter.delay(group, request.member_id, self._loop.time())
            if delay:
                await asyncio.sleep(delay)
        entry = await self._group_with_patterns(group, request.topic_regex)
        now, now_ms = self._now()
        settings, machine = self._settings_of(group), entry.machine
        if isinstance(machine, ClassicGroup):
            reply, effects = ConsumerGroup.upgrade(
                machine, request, self._topic_patterns, settings, self._rng, now, now_ms
            )
        else:
            if not isinstance(machine, ConsumerGroup):
                if request.epoch < 0:
                    message = f"Group {group} not found."
                    gone = ConsumerHeartbeatReply(error=Code.GROUP_ID_NOT_FOUND, message=message)
                    return await self._answer(entry, gone)
                machine = ConsumerGroup(group, settings, self._rng)
            machine.settings = settings
            reply, effects = machine.heartbeat(request, self._topic_patterns, now, now_ms)
            if effects.records:
                entry.machine = machine
        self._apply(entry, effects)
        return await self._answer(entry, reply)

    # Offsets

    async def commit(self, request: CommitRequest) -> Mapping[Partition, int]:
        shard = await self._shard(request.group)
        now, now_ms = self._now()
        code = offsets.check_commit(shard.entries.get(request.group), request, now)
        entry = shard.entry(request.group)
        late = None
        if code in offsets.EPOCH_ERRORS and isinstance(entry.machine, ConsumerGroup):
            late = partial(entry.machine.check_late_commit, request.member_id, request.epoch)
        elif code != Code.NONE:
            return await self._answer(entry, dict.fromkeys(request.offsets, code))
        max_bytes = self._settings.offset_metadata_max_bytes
        changes, codes = offsets.commit(
            entry, request, self._topics, metadata_max=max_bytes, now_ms=now_ms, late=late
        )
        if not changes:
            return await self._answer(entry, codes)
        if not entry.has_offsets:
            entry.has_offsets = True
            # First, so that it is written before or with the offsets if the write is split.
            changes = {entry.records_prefix + OFFSETS_MARK: HAS_OFFSETS, **changes}
        self._sweeper.note_commit(entry)
        codes = await self._writer.commit(ShardWrite(shard, changes), codes)
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
        entry = shard.entries.get(group)
        if entry is not None and entry.machine is not None:
            code = entry.machine.check_fetch(member_id, epoch)
            if code != Code.NONE:
                return await self._answer(entry, (code, {}))
        found: Mapping[Partition, CommittedOffset]
        if entry is None or not entry.has_offsets:
            found = dict.fromkeys(partitions or (), offsets.NOTHING_COMMITTED)
            if entry is not None:  # the deletion of its offsets may not be durable yet
                return await self._answer(entry, (Code.NONE, found))
        else:
            try:
                found = await offsets.read(
                    self._meta,
                    entry.offsets_prefix,
                    partitions,
                    self._topics,
                    min_revision=shard.write_revision,
                )
            except (StoreError, KafkaError) as error:
                raise CoordinatorNotAvailable(f"offsets could not be read: {error}") from error
        self._owner.check_lease(shard)
        return Code.NONE, found

    async def delete_offsets(
        self, group: str, partitions: Collection[Partition]
    ) -> tuple[int, Mapping[Partition, int]]:
        shard = await self._shard(group)
        entry = shard.entries.get(group)
        code = offsets.check_delete(entry)
        if entry is None or code != Code.NONE:
            self._owner.check_lease(shard)
            return code, {}
        changes, codes = offsets.delete(entry, partitions)
        if not changes:
            return await self._answer(entry, (code, codes))
        return await self._writer.commit(ShardWrite(shard, changes), (code, codes))

    # Administration

    async def list(self) -> Sequence[ListedGroup]:
        listed = []
        turn = Turn()
        for shard in await self._owner.obtain_all():
            if turn.spend(len(shard.entries)):
                await yield_turn()
            if not self._owner.lease_is_valid(shard):
                continue
            for group in shard.entries.values():
                machine = group.machine
                if not group.exists:
                    continue
                if machine is None:
                    listed.append(ListedGroup(group.name, "", "Empty", "classic"))
                else:
                    listed.append(
                        ListedGroup(group.name, machine.protocol_type, machine.state, machine.kind)
                    )
        return sorted(listed, key=lambda line: line.group)

    async def describe_classic(self, group: str) -> ClassicDescription:
        shard = await self._shard(group)
        entry = shard.entries.get(group)
        if entry is None or not entry.exists:
            self._owner.check_lease(shard)
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
        entry = shard.entries.get(group)
        if entry is not None and isinstance(entry.machine, ConsumerGroup):
            return await self._answer(entry, entry.machine.describe(self._topic_patterns))
        self._owner.check_lease(shard)
        known = entry is not None and entry.exists
        message = f"Group {group} " + ("is not a consumer group." if known else "not found.")
        return ConsumerDescription(error=Code.GROUP_ID_NOT_FOUND, message=message)

    async def delete(self, group: str) -> int:
        shard = await self._shard(group)
        entry = shard.entries.get(group)
        if entry is None or not entry.exists:
            self._owner.check_lease(shard)
            return Code.GROUP_ID_NOT_FOUND
        if entry.populated:
            return await self._answer(entry, Code.NON_EMPTY_GROUP)
        code = await self._writer.commit(entry.removal(), Code.NONE)
        self._tidy(entry)
        return code

    # The machines of both kinds

    def _new_classic(self, name: str) -> ClassicGroup:
        return ClassicGroup(name, self._settings, self._rng, self._clock.now_ms())

    def _machine(self, entry: Group) -> ClassicGroup | ConsumerGroup:
        """The group's machine; without one, an empty one, which refuses requests as Kafka does."""
        machine = entry.machine
        if isinstance(machine, ClassicGroup | ConsumerGroup):
            return machine
        return self._new_classic(entry.name)
