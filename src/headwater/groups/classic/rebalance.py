"""The rebalance of a classic group: how it moves from one generation to the next.

``ClassicGroup`` handles the members' requests. The code here prepares a rebalance, waits for the
members, starts the generation, stores the leader's assignment and answers the waiting requests.
The rules are those of Apache Kafka's group coordinator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from headwater.coordination.deadlines import Deadlines
from headwater.groups.classic.member import ClassicMember, choose_protocol
from headwater.groups.classic.records import (
    HEADER,
    HeaderRecord,
    member_name,
    member_record,
    record_sum,
    total,
)
from headwater.groups.classic.roster import Roster
from headwater.groups.classic.subscription import CONSUMER, subscribed_topics
from headwater.groups.machine import Effects, Superseded
from headwater.groups.requests import JoinedMember, JoinReply, SyncReply
from headwater.groups.settings import GroupSettings
from headwater.meta.values import encode
from headwater.wire.error_codes import Code

_JOIN: Final = "join"
_SYNC: Final = "sync"
_MEMBER: Final = "member/"
_MIN_RETRY_SECONDS: Final = 1.0
"""Shortest time before a rebalance that no member joined is tried again, in seconds."""


class ClassicGroupState(StrEnum):
    """The states of a classic group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


def member_timer(member_id: str) -> str:
    """The timer of a member's session, or of an assigned id that has not joined yet."""
    return _MEMBER + member_id


@dataclass(frozen=True, slots=True)
class MachineCall:
    """One call of the machine: its time on both clocks, and its effects."""

    now: float
    now_ms: int
    effects: Effects = field(default_factory=Effects)


class ClassicRebalance:
    """A group's members, timers and state transitions."""

    def __init__(self, group_id: str, settings: GroupSettings, now_ms: int) -> None:
        self.group_id = group_id
        self._settings = settings
        self._state = ClassicGroupState.EMPTY
        self._since_ms = now_ms
        self._partly_stored = False
        """Restored from a generation that was stored only in part, and not changed since."""
        self._generation = 0
        self._protocol_type = ""
        self._protocol: str | None = None
        self._roster = Roster()
        self._pending: set[str] = set()
        """Member ids that were assigned (error 79) and have not joined yet."""
        self._unsynced: set[str] = set()
        self._timers = Deadlines()
        self._initial_rebalance = False
        """The running rebalance is the first one of a group that was empty."""
        self._joined_during_delay = False
        self._delay_ms = 0
        self._delay_left_ms = 0
        self._topics: frozenset[str] | None = None
        self._saved_header: bytes | None = None
        self._saved_sums: dict[str, int] = {}
        self._header_unknown: Mapping[str, Any] = {}

    def _move_to(self, state: ClassicGroupState, call: MachineCall) -> None:
        self._state = state
        self._since_ms = call.now_ms
        self._partly_stored = False

    # Deadlines

    def _start_session(
        self, member: ClassicMember, now: float, timeout_ms: int | None = None
    ) -> None:
        timeout = member.state.session_timeout_ms if timeout_ms is None else timeout_ms
        self._timers.set(member_timer(member.state.member_id), now + timeout / 1000)

    def _fire(self, timer: str, call: MachineCall) -> None:
        if timer == _JOIN:
            self._join_timeout(call)
        elif timer == _SYNC:
            self._sync_timeout(call)
        else:
            self._session_timeout(timer.removeprefix(_MEMBER), call)

    def _join_timeout(self, call: MachineCall) -> None:
        if self._initial_rebalance and self._joined_during_delay and self._delay_left_ms:
            self._joined_during_delay = False
            delay, left = self._delay_ms, self._delay_left_ms
            self._delay_ms = min(self._settings.initial_rebalance_delay_ms, left)
            self._delay_left_ms = max(left - delay, 0)
            self._timers.set(_JOIN, call.now + self._delay_ms / 1000)
        else:
            self._begin_generation(call)

    def _sync_timeout(self, call: MachineCall) -> None:
        if self._unsynced and self._state in {
            ClassicGroupState.COMPLETING,
            ClassicGroupState.STABLE,
        }:
            for member_id in list(self._unsynced):
                self._remove(member_id, call)
            self._prepare(call)

    def _session_timeout(self, member_id: str, call: MachineCall) -> None:
        if member_id in self._pending:
            self._pending.discard(member_id)
            if self._state is ClassicGroupState.PREPARING and self._all_joined:
                self._begin_generation(call)
        elif (member := self._roster.get(member_id)) and not member.kept_alive:
            self._remove(member_id, call)
            if self._state in {ClassicGroupState.COMPLETING, ClassicGroupState.STABLE}:
                self._prepare(call)
            elif self._state is ClassicGroupState.PREPARING and self._all_joined:
                self._begin_generation(call)

    # Rebalance

    @property
    def _all_joined(self) -> bool:
        return self._roster.joining == len(self._roster) and not self._pending

    def _rebalance(self, call: MachineCall) -> None:
        """Begin a rebalance, or complete the running one if no member is missing."""
        if self._state is ClassicGroupState.PREPARING:
            self._begin_generation_if_complete(call)
        else:
            self._prepare(call)

    def _begin_generation_if_complete(self, call: MachineCall) -> None:
        # The first rebalance of an empty group always takes its full delay.
        if (
            self._state is ClassicGroupState.PREPARING
            and not self._initial_rebalance
            and self._all_joined
        ):
            self._begin_generation(call)

    def _prepare(self, call: MachineCall) -> None:
        if self._state is ClassicGroupState.COMPLETING:
            for member in self._roster.all():
                member.state = replace(member.state, assignment=b"")
                self._answer_sync(member, SyncReply(error=Code.REBALANCE_IN_PROGRESS), call)
        self._unsynced.clear()
        self._timers.cancel(_SYNC)
        self._initial_rebalance = self._state is ClassicGroupState.EMPTY
        self._move_to(ClassicGroupState.PREPARING, call)
        if self._initial_rebalance:
            self._joined_during_delay = False
            self._delay_ms = self._settings.initial_rebalance_delay_ms
            timeout_ms = int(self._roster.rebalance_timeout * 1000)
            self._delay_left_ms = max(timeout_ms - self._delay_ms, 0)
            self._timers.set(_JOIN, call.now + self._delay_ms / 1000)
        elif self._all_joined:
            self._begin_generation(call)
        else:
            self._timers.set(_JOIN, call.now + self._roster.rebalance_timeout)

    def _begin_generation(self, call: MachineCall) -> None:
        self._timers.cancel(_JOIN)
        for member in list(self._roster.all()):
            # A static member stays until its session ends, because it may be restarting.
            if member.joining is None and member.state.instance_id is None:
                self._remove(member.state.member_id, call)
        if not self._roster.elect_joined_leader() and len(self._roster):
            wait = max(self._roster.rebalance_timeout, _MIN_RETRY_SECONDS)
            self._timers.set(_JOIN, call.now + wait)
            return
        self._generation += 1
        self._unsynced.clear()
        if not len(self._roster):
            self._protocol = None
            self._read_subscriptions()
            self._move_to(ClassicGroupState.EMPTY, call)
            self._save(call)
            return
        self._protocol = choose_protocol(self._roster.states(), self._protocol)
        self._read_subscriptions()
        self._move_to(ClassicGroupState.COMPLETING, call)
        for member in self._roster.all():
            self._answer_join(member, self._join_reply(member), call)
            self._start_session(member, call.now)
            member.is_new = False
            self._unsynced.add(member.state.member_id)
        self._timers.set(_SYNC, call.now + self._roster.rebalance_timeout)

    def _assign(self, assignments: Mapping[str, bytes], call: MachineCall) -> None:
        """Store the leader's assignment and send each member its part."""
        for member in self._roster.all():
            assignment = bytes(assignments.get(member.state.member_id, b""))
            member.state = replace(member.state, assignment=assignment)
        self._move_to(ClassicGroupState.STABLE, call)
        self._save(call)
        for member in self._roster.all():
            self._answer_sync(member, self._sync_reply(member), call)

    def _join_reply(self, member: ClassicMember, *, skip_assignment: bool = False) -> JoinReply:
        assert self._protocol is not None
        leads = member.state.member_id == self._roster.leader
        members = (
            tuple(
                JoinedMember(state.member_id, state.instance_id, state.metadata(self._protocol))
                for state in self._roster.states()
            )
            if leads
            else ()
        )
        return JoinReply(
            generation=self._generation,
            protocol_type=self._protocol_type,
            protocol_name=self._protocol,
            leader=self._roster.leader or "",
            skip_assignment=leads and skip_assignment,
            member_id=member.state.member_id,
            members=members,
        )

    def _sync_reply(self, member: ClassicMember) -> SyncReply:
        return SyncReply(
            protocol_type=self._protocol_type,
            protocol_name=self._protocol,
            assignment=member.state.assignment,
        )

    def _read_subscriptions(self) -> None:
        self._topics = None
        if self._protocol_type == CONSUMER and (self._protocol or not len(self._roster)):
            protocol = self._protocol or ""
            self._topics = subscribed_topics(
                state.metadata(protocol) for state in self._roster.states()
            )

    # Members and their waiting requests

    def _remove(self, member_id: str, call: MachineCall) -> None:
        member = self._roster[member_id]
        # The id in the reply is empty, so that a waiting client joins as a new member.
        self._answer_join(member, JoinReply(error=Code.UNKNOWN_MEMBER_ID), call)
        self._answer_sync(member, SyncReply(error=Code.UNKNOWN_MEMBER_ID), call)
        self._roster.remove(member_id)
        self._unsynced.discard(member_id)
        self._timers.cancel(member_timer(member_id))

    def _forget_pending(self, member_id: str) -> None:
        self._pending.discard(member_id)
        self._timers.cancel(member_timer(member_id))

    def _has_synced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._timers.cancel(_SYNC)

    def _answer_join(self, member: ClassicMember, reply: JoinReply, call: MachineCall) -> None:
        ticket = self._roster.end_wait(member)
        if ticket is not None:
            call.effects.replies.append((ticket, reply))

    def _answer_sync(
        self, member: ClassicMember, reply: SyncReply | Superseded, call: MachineCall
    ) -> None:
        if member.syncing is not None:
            call.effects.replies.append((member.syncing, reply))
            member.syncing = None
            self._start_session(member, call.now)

    # Records

    def _save(self, call: MachineCall) -> None:
        """Return the records that have changed since the last call in the effects."""
        records = call.effects.records
        sums: dict[str, int] = {}
        for member in self._roster.all():
            name = member_name(member.state.member_id)
            if member.saved is member.state or member.saved == member.state:
                sums[name] = self._saved_sums[name]
            else:
                records[name] = data = member_record(member.state)
                sums[name] = record_sum(name, data)
            member.saved = member.state
        records.update(dict.fromkeys(self._saved_sums.keys() - sums.keys()))
        self._saved_sums = sums
        header = HeaderRecord(
            generation=self._generation,
            protocol_type=self._protocol_type,
            protocol=self._protocol,
            leader=self._roster.leader,
            since_ms=self._since_ms,
            members_sum=total(sums.values()),
        )
        if self._header_unknown:
            header.__dict__["unknown"] = dict(self._header_unknown)
        self._saved_header = records[HEADER] = encode(header)

    def _save_if_unwritten(self, call: MachineCall) -> None:
        """Write the group's first record: it exists from its first member's first request on."""
        if self._saved_header is None:
            self._saved_header = encode(HeaderRecord(since_ms=self._since_ms))
            call.effects.records[HEADER] = self._saved_header
