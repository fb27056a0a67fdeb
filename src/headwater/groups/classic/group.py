"""Classic consumer groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The states are Kafka's: Empty, PreparingRebalance (waits for the members), CompletingRebalance
(waits for the leader's assignment), Stable, and Dead for a machine whose group was deleted or
converted. Records are written at a group's first request, at each assignment, when a group becomes
empty and when a static member's id changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from headwater.groups.bounds import GROUP_MAX_BYTES, RECORD_MAX_BYTES
from headwater.groups.classic.joins import ClassicJoins
from headwater.groups.classic.member import ClassicMember, ClassicMemberState, choose_protocol
from headwater.groups.classic.rebalance import ClassicGroupState, MachineCall
from headwater.groups.classic.records import HEADER, read_records
from headwater.groups.classic.subscription import CONSUMER
from headwater.groups.machine import SUPERSEDED, Effects, Ticket
from headwater.groups.requests import (
    ClassicDescription,
    ClassicMemberDescription,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code


class ClassicGroup(ClassicJoins):
    """A machine (``groups.machine``) for one classic group; a new one has no members."""

    @classmethod
    def restore(
        cls,
        group_id: str,
        records: Mapping[str, bytes],
        settings: GroupSettings,
        rng: Random,
        now: float,
    ) -> "ClassicGroup":
        """Restore a group from its records; records with other names are ignored.

        A group that is larger than the present maximum begins a rebalance.
        """
        stored = read_records(records)
        header = stored.header
        group = cls(group_id, settings, rng, header.since_ms)
        group._generation = header.generation
        group._protocol_type = header.protocol_type
        group._saved_header = records[HEADER]
        group._saved_sums = stored.sums
        group._header_unknown = header.unknown
        group._partly_stored = not stored.whole
        for state in stored.members.values():
            group._restore_member(ClassicMember(state, saved=state), now)
        if stored.members:
            group._protocol = header.protocol
            group._roster.leader = header.leader
            group._state = ClassicGroupState.STABLE
        group._read_subscriptions()
        if len(group._roster) > settings.max_size:
            group._prepare(MachineCall(now, header.since_ms))
        return group

    @classmethod
    def from_members(
        cls,
        group_id: str,
        members: Iterable[ClassicMemberState],
        *,
        generation: int,
        settings: GroupSettings,
        rng: Random,
        now: float,
        now_ms: int,
    ) -> tuple["ClassicGroup", Effects]:
        """Convert a consumer group whose members all use the classic protocol; returns the stable
        group and its records. There is at least one member. The first one becomes the leader; the
        protocol is ``choose_protocol`` of the members.
        """
        group = cls(group_id, settings, rng, now_ms)
        group._generation = generation
        group._protocol_type = CONSUMER
        for state in members:
            group._restore_member(ClassicMember(state), now)
        group._protocol = choose_protocol(group._roster.states())
        group._state = ClassicGroupState.STABLE
        group._read_subscriptions()
        call = MachineCall(now, now_ms)
        group._save(call)
        return group, call.effects

    def _restore_member(self, member: ClassicMember, now: float) -> None:
        self._roster.add(member)
        self._start_session(member, now)

    # State for the coordinator

    @property
    def kind(self) -> str:
        return "classic"

    @property
    def state(self) -> str:
        return self._state.value

    @property
    def protocol_type(self) -> str:
        return self._protocol_type

    @property
    def protocol_name(self) -> str | None:
        """The chosen protocol; None before the first generation and while there are no members."""
        return self._protocol

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def leader(self) -> str | None:
        return self._roster.leader

    @property
    def members(self) -> tuple[ClassicMemberState, ...]:
        """The members that have joined, without ids that were only assigned (error 79)."""
        return tuple(self._roster.states())

    @property
    def unwritten(self) -> bool:
        """True if nothing was ever stored: the machine was made for a request that it refused."""
        return self._saved_header is None

    @property
    def empty(self) -> bool:
        return self._state is ClassicGroupState.EMPTY

    @property
    def empty_since_ms(self) -> int | None:
        # Members of a generation that was stored only in part may have read until now.
        return self._since_ms if self.empty and not self._partly_stored else None

    @property
    def deadline(self) -> float | None:
        return self._timers.next()

    def subscribed_to(self, topic: str) -> bool:
        if self._topics is not None:
            return topic in self._topics
        return self._protocol_type == CONSUMER

    def describe(self) -> ClassicDescription:
        stable = self._state is ClassicGroupState.STABLE
        protocol = (self._protocol or "") if stable else ""
        return ClassicDescription(
            state=self._state.value,
            protocol_type=self._protocol_type,
            protocol_name=protocol,
            members=tuple(
                ClassicMemberDescription(
                    member_id=state.member_id,
                    instance_id=state.instance_id,
                    client=state.client,
                    metadata=state.metadata(protocol) if stable else b"",
                    assignment=state.assignment,
                )
                for state in sorted(self._roster.states(), key=lambda state: state.member_id)
            ),
        )

    # Requests

    def join(self, ticket: Ticket, request: JoinRequest, now: float, now_ms: int) -> Effects:
        call = MachineCall(now, now_ms)
        reply = self._join(ticket, request, call)
        if reply is not None:
            call.effects.replies.append((ticket, reply))
        return call.effects

    def sync(self, ticket: Ticket, request: SyncRequest, now: float, now_ms: int) -> Effects:
        call = MachineCall(now, now_ms)
        reply = self._sync(ticket, request, call)
        if reply is not None:
            call.effects.replies.append((ticket, reply))
        return call.effects

    def heartbeat(self, request: HeartbeatRequest, now: float) -> int:
        """The error code; a heartbeat keeps the session alive even if the answer is error 27."""
        code = self._check_member(request.member_id, request.instance_id, request.generation)
        if code:
            return code
        self._start_session(self._roster[request.member_id], now)
        return (
            Code.REBALANCE_IN_PROGRESS if self._state is ClassicGroupState.PREPARING else Code.NONE
        )

    def leave(
        self, members: Sequence[LeavingMember], now: float, now_ms: int
    ) -> tuple[LeaveReply, Effects]:
        """LeaveGroup for several members; one without a member id is identified by its instance."""
        call = MachineCall(now, now_ms)
        if refusal := self._refusal():
            return LeaveReply(error=refusal), call.effects
        replies = tuple(
            (member.member_id, member.instance_id, self._leave_one(member, call))
            for member in members
        )
        if any(code == Code.NONE for _, _, code in replies) and not self.empty:
            self._rebalance(call)
        return LeaveReply(members=replies), call.effects

    def is_modern(self, member_id: str) -> bool:
        return False

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> int:
        if self._state is ClassicGroupState.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and self.empty:
            return Code.NONE
        if epoch < 0 and not member_id and instance_id is None:
            return Code.UNKNOWN_MEMBER_ID
        code = self._roster.check(member_id, instance_id)
        if not code and epoch != self._generation:
            code = Code.ILLEGAL_GENERATION
        if not code and self._state is ClassicGroupState.COMPLETING:
            code = Code.REBALANCE_IN_PROGRESS
        if not code:
            self._start_session(self._roster[member_id], now)
        return code

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        """As in Kafka, every client may read the offsets of a classic group."""
        return Code.GROUP_ID_NOT_FOUND if self._state is ClassicGroupState.DEAD else Code.NONE

    def expire(self, now: float, now_ms: int) -> Effects:
        call = MachineCall(now, now_ms)
        while (timer := self._timers.pop_due(now)) is not None:
            self._fire(timer, call)
        return call.effects

    # For conversions and deletion

    def begin_rebalance(self, now: float, now_ms: int) -> Effects:
        """Make all members join again after a conversion."""
        call = MachineCall(now, now_ms)
        self._rebalance(call)
        return call.effects

    def retire(self, code: int, now: float, now_ms: int) -> Effects:
        """End this machine: waiting requests get ``code``, all records are deleted."""
        call = MachineCall(now, now_ms)
        for member in self._roster.all():
            refusal = JoinReply(error=code, member_id=member.state.member_id)
            self._answer_join(member, refusal, call)
            self._answer_sync(member, SyncReply(error=code), call)
        call.effects.records.update(dict.fromkeys(self._saved_sums))
        if self._saved_header is not None:
            call.effects.records[HEADER] = None
        self._timers.clear()
        self._pending.clear()
        self._move_to(ClassicGroupState.DEAD, call)
        return call.effects

    # Handling of requests

    def _check_member(self, member_id: str, instance_id: str | None, generation: int) -> int:
        code = self._refusal() or self._roster.check(member_id, instance_id)
        if not code and generation != self._generation:
            return Code.ILLEGAL_GENERATION
        return code

    def _sync(self, ticket: Ticket, request: SyncRequest, call: MachineCall) -> SyncReply | None:
        code = self._check_sync(request)
        if code:
            return SyncReply(error=code)
        member = self._roster[request.member_id]
        self._has_synced(request.member_id)
        if self._state is ClassicGroupState.STABLE:
            return self._sync_reply(member)
        self._answer_sync(member, SUPERSEDED, call)
        member.syncing = ticket
        if request.member_id != self._roster.leader:
            return None
        if self._has_bytes_for_assignments(request.assignments):
            self._assign(request.assignments, call)
        else:
            self._refuse_assignments(call)
        return None

    def _has_bytes_for_assignments(self, assignments: Mapping[str, bytes]) -> bool:
        total = self._roster.size
        for state in self._roster.states():
            assigned = len(assignments.get(state.member_id, b""))
            total += assigned
            if state.size + assigned > RECORD_MAX_BYTES:
                return False
        return total <= GROUP_MAX_BYTES

    def _refuse_assignments(self, call: MachineCall) -> None:
        """Answer every waiting member with an error and begin a rebalance, as Kafka does."""
        for member in self._roster.all():
            self._answer_sync(member, SyncReply(error=Code.UNKNOWN_SERVER_ERROR), call)
        self._prepare(call)

    def _check_sync(self, request: SyncRequest) -> int:
        code = self._check_member(request.member_id, request.instance_id, request.generation)
        if code:
            return code
        if request.protocol_type not in {None, self._protocol_type}:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in {None, self._protocol}:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if self._state is ClassicGroupState.PREPARING:
            return Code.REBALANCE_IN_PROGRESS
        return Code.NONE

    def _leave_one(self, leaving: LeavingMember, call: MachineCall) -> int:
        member_id = leaving.member_id
        if not member_id and leaving.instance_id is not None:
            # An administrator removes a static member by its instance id.
            member_id = self._roster.instances.get(leaving.instance_id, "")
        if member_id in self._pending:
            self._forget_pending(member_id)
            return Code.NONE
        code = self._roster.check(member_id, leaving.instance_id)
        if not code:
            self._remove(member_id, call)
        return code
