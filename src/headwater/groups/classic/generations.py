"""How a classic group comes from one generation to the next.

Members' requests are ``classic.ClassicGroup``'s business. Here is what follows from them: a
rebalance is prepared, members are waited for, a generation begins, its leader's assignment is
stored, and what waits is answered. The rules are those of Apache Kafka's group coordinator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from headwater.coordination.deadlines import Deadlines
from headwater.groups.classic.member import Member, choose_protocol
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
_SHORTEST_RETRY: Final = 1.0
"""Seconds: a rebalance that nobody joined is not tried again faster than this."""


class State(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


def member_timer(member_id: str) -> str:
    """The timer of a member's session, or of an id that was given out."""
    return _MEMBER + member_id


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its time, on both clocks, and what it gives out."""

    now: float
    now_ms: int
    effects: Effects = field(default_factory=Effects)


class Generations:
    """A group's members and timers, and the transitions that they bring about."""

    def __init__(self, group_id: str, settings: GroupSettings, now_ms: int) -> None:
        self.group_id = group_id
        self._settings = settings
        self._state = State.EMPTY
        self._since_ms = now_ms
        self._torn = False
        """It was restored from a generation that was stored in part, and has not moved since."""
        self._generation = 0
        self._protocol_type = ""
        self._protocol: str | None = None
        self._roster = Roster()
        self._pending: set[str] = set()
        """Ids that were given out (79) and did not join yet."""
        self._unsynced: set[str] = set()
        self._timers = Deadlines()
        self._initial = False
        """The rebalance under way is that of a group that was empty."""
        self._joined_during_delay = False
        self._delay_ms = 0
        self._delay_left_ms = 0
        self._topics: frozenset[str] | None = None
        self._saved_header: bytes | None = None
        self._saved_sums: dict[str, int] = {}
        self._header_unknown: Mapping[str, Any] = {}

    def _move_to(self, state: State, step: Step) -> None:
        self._state = state
        self._since_ms = step.now_ms
        self._torn = False

    # Deadlines

    def _start_session(self, member: Member, now: float, timeout_ms: int | None = None) -> None:
        timeout = member.state.session_timeout_ms if timeout_ms is None else timeout_ms
        self._timers.set(member_timer(member.state.member_id), now + timeout / 1000)

    def _fire(self, timer: str, step: Step) -> None:
        if timer == _JOIN:
            self._join_time_is_up(step)
        elif timer == _SYNC:
            self._sync_time_is_up(step)
        else:
            self._session_is_over(timer.removeprefix(_MEMBER), step)

    def _join_time_is_up(self, step: Step) -> None:
        if self._initial and self._joined_during_delay and self._delay_left_ms:
            self._joined_during_delay = False
            delay, left = self._delay_ms, self._delay_left_ms
            self._delay_ms = min(self._settings.initial_rebalance_delay_ms, left)
            self._delay_left_ms = max(left - delay, 0)
            self._timers.set(_JOIN, step.now + self._delay_ms / 1000)
        else:
            self._begin_generation(step)

    def _sync_time_is_up(self, step: Step) -> None:
        if self._unsynced and self._state in {State.COMPLETING, State.STABLE}:
            for member_id in list(self._unsynced):
                self._remove(member_id, step)
            self._prepare(step)

    def _session_is_over(self, member_id: str, step: Step) -> None:
        if member_id in self._pending:
            self._pending.discard(member_id)
            if self._state is State.PREPARING and self._all_joined:
                self._begin_generation(step)
        elif (member := self._roster.get(member_id)) and not member.kept_alive:
            self._remove(member_id, step)
            if self._state in {State.COMPLETING, State.STABLE}:
                self._prepare(step)
            elif self._state is State.PREPARING and self._all_joined:
                self._begin_generation(step)

    # Rebalance

    @property
    def _all_joined(self) -> bool:
        return self._roster.joining == len(self._roster) and not self._pending

    def _rebalance(self, step: Step) -> None:
        """Begin a rebalance, or end the one under way if nobody is missing any more."""
        if self._state is State.PREPARING:
            self._begin_generation_if_complete(step)
        else:
            self._prepare(step)

    def _begin_generation_if_complete(self, step: Step) -> None:
        # The first rebalance of an empty group always lasts its whole delay.
        if self._state is State.PREPARING and not self._initial and self._all_joined:
            self._begin_generation(step)

    def _prepare(self, step: Step) -> None:
        if self._state is State.COMPLETING:
            for member in self._roster.all():
                member.state = replace(member.state, assignment=b"")
                self._answer_sync(member, SyncReply(error=Code.REBALANCE_IN_PROGRESS), step)
        self._unsynced.clear()
        self._timers.cancel(_SYNC)
        self._initial = self._state is State.EMPTY
        self._move_to(State.PREPARING, step)
        if self._initial:
            self._joined_during_delay = False
            self._delay_ms = self._settings.initial_rebalance_delay_ms
            timeout_ms = int(self._roster.rebalance_timeout * 1000)
            self._delay_left_ms = max(timeout_ms - self._delay_ms, 0)
            self._timers.set(_JOIN, step.now + self._delay_ms / 1000)
        elif self._all_joined:
            self._begin_generation(step)
        else:
            self._timers.set(_JOIN, step.now + self._roster.rebalance_timeout)

    def _begin_generation(self, step: Step) -> None:
        self._timers.cancel(_JOIN)
        for member in list(self._roster.all()):
            # A static member keeps its place until its session ends: it may be restarting.
            if member.joining is None and member.state.instance_id is None:
                self._remove(member.state.member_id, step)
        if not self._roster.elect_joined_leader() and len(self._roster):
            wait = max(self._roster.rebalance_timeout, _SHORTEST_RETRY)
            self._timers.set(_JOIN, step.now + wait)
            return
        self._generation += 1
        self._unsynced.clear()
        if not len(self._roster):
            self._protocol = None
            self._read_subscriptions()
            self._move_to(State.EMPTY, step)
            self._save(step)
            return
        self._protocol = choose_protocol(self._roster.states(), self._protocol)
        self._read_subscriptions()
        self._move_to(State.COMPLETING, step)
        for member in self._roster.all():
            self._answer_join(member, self._present_generation(member), step)
            self._start_session(member, step.now)
            member.is_new = False
            self._unsynced.add(member.state.member_id)
        self._timers.set(_SYNC, step.now + self._roster.rebalance_timeout)

    def _assign(self, assignments: Mapping[str, bytes], step: Step) -> None:
        """Take the leader's assignment, store it and hand it out."""
        for member in self._roster.all():
            assignment = bytes(assignments.get(member.state.member_id, b""))
            member.state = replace(member.state, assignment=assignment)
        self._move_to(State.STABLE, step)
        self._save(step)
        for member in self._roster.all():
            self._answer_sync(member, self._present_assignment(member), step)

    def _present_generation(self, member: Member, *, skip_assignment: bool = False) -> JoinReply:
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

    def _present_assignment(self, member: Member) -> SyncReply:
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

    # Members and what they wait for

    def _remove(self, member_id: str, step: Step) -> None:
        member = self._roster[member_id]
        # The id in the reply is empty so that a client that still waits joins as a new member.
        self._answer_join(member, JoinReply(error=Code.UNKNOWN_MEMBER_ID), step)
        self._answer_sync(member, SyncReply(error=Code.UNKNOWN_MEMBER_ID), step)
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

    def _answer_join(self, member: Member, reply: JoinReply, step: Step) -> None:
        ticket = self._roster.end_wait(member)
        if ticket is not None:
            step.effects.replies.append((ticket, reply))

    def _answer_sync(self, member: Member, reply: SyncReply | Superseded, step: Step) -> None:
        if member.syncing is not None:
            step.effects.replies.append((member.syncing, reply))
            member.syncing = None
            self._start_session(member, step.now)

    # Records

    def _save(self, step: Step) -> None:
        """Give out what changed since the records were last given out."""
        records = step.effects.records
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

    def _save_if_unwritten(self, step: Step) -> None:
        """A group is known from its first member's first request on."""
        if self._saved_header is None:
            self._saved_header = encode(HeaderRecord(since_ms=self._since_ms))
            step.effects.records[HEADER] = self._saved_header
