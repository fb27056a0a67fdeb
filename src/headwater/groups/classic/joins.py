"""JoinGroup: which members may join a classic group, and whether that starts a rebalance."""

from dataclasses import replace
from random import Random
from typing import Final
from uuid import UUID

from headwater.groups.bounds import GROUP_MAX_BYTES, MAX_PENDING_IDS, RECORD_MAX_BYTES
from headwater.groups.classic.member import (
    ClassicMember,
    ClassicMemberState,
    choose_protocol,
    distinct_protocols,
    stored_bytes,
)
from headwater.groups.classic.rebalance import (
    ClassicGroupState,
    ClassicRebalance,
    MachineCall,
    member_timer,
)
from headwater.groups.machine import SUPERSEDED, Ticket
from headwater.groups.requests import JoinReply, JoinRequest, SyncReply
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code

_NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60 * 1000
"""Longest wait of a new member's join, as in Kafka: the member cannot send heartbeats yet, so
nothing else detects that its client has gone."""

_CLIENT_ID_IN_MEMBER_IDS: Final = 200
"""Characters of the client id in a member id; bounded because every member id is in memory."""


class ClassicJoins(ClassicRebalance):
    """A group with JoinGroup."""

    def __init__(self, group_id: str, settings: GroupSettings, rng: Random, now_ms: int) -> None:
        super().__init__(group_id, settings, now_ms)
        self._rng = rng

    def _join(self, ticket: Ticket, request: JoinRequest, call: MachineCall) -> JoinReply | None:
        """The reply; None if it comes later or is in the effects."""
        code = self._refusal() or self._check_session_timeout(request.session_timeout_ms)
        if code:
            return JoinReply(error=code, member_id=request.member_id)
        request = replace(request, protocols=distinct_protocols(request))
        if not self._has_room_for(request):
            self._refuse_full_group(request.member_id, call)
            return JoinReply(error=Code.GROUP_MAX_SIZE_REACHED)
        code = self._check_fit(request)
        if code:
            return JoinReply(error=code, member_id=request.member_id)
        if not request.member_id:
            return self._join_without_id(ticket, request, call)
        if request.member_id in self._pending and request.instance_id is None:
            self._add(request.member_id, ticket, request, call)
            return None
        return self._join_again(ticket, request, call)

    def _refusal(self) -> int:
        """The error code that every request gets in this state; 0 without one."""
        if not self.group_id:
            return Code.INVALID_GROUP_ID
        if self._state is ClassicGroupState.DEAD:
            return Code.COORDINATOR_NOT_AVAILABLE
        return Code.NONE

    def _check_session_timeout(self, timeout_ms: int) -> int:
        settings = self._settings
        if settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            return Code.NONE
        return Code.INVALID_SESSION_TIMEOUT

    def _has_room_for(self, request: JoinRequest) -> bool:
        # A static member that restarts takes its old place.
        member_id = request.member_id or self._roster.instances.get(request.instance_id or "", "")
        member = self._roster.get(member_id)
        if self._state is ClassicGroupState.EMPTY:
            return True
        if self._state is ClassicGroupState.PREPARING:
            # Only joined members count: in a group that is too large, the last ones are refused.
            known = member is not None and member.joining is not None
            return known or self._roster.joining < self._settings.max_size
        return member is not None or len(self._roster) < self._settings.max_size

    def _has_bytes_for(self, request: JoinRequest) -> bool:
        """Whether the member's record, with its assignment, and the group stay within bounds."""
        member_id = request.member_id or self._roster.instances.get(request.instance_id or "", "")
        member = self._roster.get(member_id)
        size = stored_bytes(member_id, request.instance_id, request.client, request.protocols)
        assigned = 0 if member is None else len(member.state.assignment)
        return (
            size + assigned <= RECORD_MAX_BYTES
            and self._roster.size_without(member_id) + size <= GROUP_MAX_BYTES
        )

    def _refuse_full_group(self, member_id: str, call: MachineCall) -> None:
        self._forget_pending(member_id)
        if member_id in self._roster:
            self._remove(member_id, call)
        self._begin_generation_if_complete(call)

    def _check_fit(self, request: JoinRequest) -> int:
        if self._state is ClassicGroupState.EMPTY:
            fits = bool(request.protocol_type and request.protocols)
        else:
            fits = request.protocol_type == self._protocol_type and self._roster.all_support_one_of(
                request.protocols
            )
        if not fits:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return Code.NONE if self._has_bytes_for(request) else Code.UNKNOWN_SERVER_ERROR

    def _join_without_id(
        self, ticket: Ticket, request: JoinRequest, call: MachineCall
    ) -> JoinReply | None:
        uuid = UUID(int=self._rng.getrandbits(128), version=4)
        if request.instance_id is not None:
            member_id = f"{request.instance_id}-{uuid}"
            if request.instance_id in self._roster.instances:
                return self._replace_static(member_id, ticket, request, call)
            self._add(member_id, ticket, request, call)
            return None
        member_id = f"{request.client.id[:_CLIENT_ID_IN_MEMBER_IDS]}-{uuid}"
        if not request.requires_known_member_id:
            self._add(member_id, ticket, request, call)
            return None
        if len(self._pending) >= MAX_PENDING_IDS:
            return JoinReply(error=Code.GROUP_MAX_SIZE_REACHED)
        self._pending.add(member_id)
        self._timers.set(member_timer(member_id), call.now + request.session_timeout_ms / 1000)
        self._save_if_unwritten(call)
        return JoinReply(error=Code.MEMBER_ID_REQUIRED, member_id=member_id)

    def _add(self, member_id: str, ticket: Ticket, request: JoinRequest, call: MachineCall) -> None:
        if not len(self._roster):
            self._protocol_type = request.protocol_type
        if self._state is ClassicGroupState.PREPARING and self._initial_rebalance:
            self._joined_during_delay = True
        member = ClassicMember(_state_of(member_id, request), is_new=True)
        self._pending.discard(member_id)
        self._roster.add(member)
        self._roster.await_generation(member, ticket)
        self._start_session(member, call.now, _NEW_MEMBER_TIMEOUT_MS)
        self._save_if_unwritten(call)
        self._rebalance(call)

    def _join_again(
        self, ticket: Ticket, request: JoinRequest, call: MachineCall
    ) -> JoinReply | None:
        code = self._roster.check(request.member_id, request.instance_id)
        if code:
            return JoinReply(error=code, member_id=request.member_id)
        member = self._roster[request.member_id]
        same = member.state.protocols == request.protocols
        # A leader that joins again requests a rebalance: only the leader detects changes such as
        # a new number of partitions.
        leads = request.member_id == self._roster.leader
        if self._state is ClassicGroupState.COMPLETING and same:
            return self._join_reply(member)
        if self._state is ClassicGroupState.STABLE and same and not leads:
            return self._join_reply(member)
        self._wait_again(member, ticket, request, call)
        self._rebalance(call)
        return None

    def _wait_again(
        self, member: ClassicMember, ticket: Ticket, request: JoinRequest, call: MachineCall
    ) -> None:
        self._roster.change(
            member,
            protocols=request.protocols,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
        )
        before = self._roster.await_generation(member, ticket)
        if before is not None:
            call.effects.replies.append((before, SUPERSEDED))

    def _replace_static(
        self, member_id: str, ticket: Ticket, request: JoinRequest, call: MachineCall
    ) -> JoinReply | None:
        """A static member restarts: it replaces the member with its instance id."""
        assert request.instance_id is not None
        leader_before = self._roster.leader
        member = self._rename(self._roster.instances[request.instance_id], member_id, call)
        member.state = replace(member.state, client=request.client)
        self._wait_again(member, ticket, request, call)
        self._start_session(member, call.now)
        if self._state is not ClassicGroupState.STABLE or not self._keeps_protocol():
            self._rebalance(call)
            return None
        self._roster.end_wait(member)
        self._read_subscriptions()
        self._save(call)
        reply = self._join_reply(member, skip_assignment=True)
        if not request.supports_skipping_assignment:
            # An older client that is the leader would compute an assignment. With the id of the
            # previous leader in the reply, it does not.
            reply = replace(reply, leader=leader_before or "", members=(), skip_assignment=False)
        return reply

    def _keeps_protocol(self) -> bool:
        return choose_protocol(self._roster.states(), self._protocol) == self._protocol

    def _rename(self, old_id: str, new_id: str, call: MachineCall) -> ClassicMember:
        """Change the id of a static member; clients that still use the old id are fenced."""
        old = self._roster[old_id]
        fenced = JoinReply(error=Code.FENCED_INSTANCE_ID, member_id=old_id)
        self._answer_join(old, fenced, call)
        self._answer_sync(old, SyncReply(error=Code.FENCED_INSTANCE_ID), call)
        self._timers.cancel(member_timer(old_id))
        if old_id in self._unsynced:
            self._unsynced.remove(old_id)
            self._unsynced.add(new_id)
        return self._roster.rename(old_id, new_id)


def _state_of(member_id: str, request: JoinRequest) -> ClassicMemberState:
    return ClassicMemberState(
        member_id=member_id,
        instance_id=request.instance_id,
        client=request.client,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
    )
