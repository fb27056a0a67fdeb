"""Members of the classic protocol in a consumer group, while an application moves over.

They join, sync and beat as in a classic group that rebalances for each of them alone: the
server's target is what they sync, and REBALANCE_IN_PROGRESS makes them join for the next step.
No member leads, so that none computes assignments.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.groups.bounds import RECORD_MAX_BYTES, member_bytes
from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.member import distinct_protocols
from headwater.groups.classic.subscription import CONSUMER
from headwater.groups.consumer import checks
from headwater.groups.consumer.checks import Refusal
from headwater.groups.consumer.core import JOIN, SYNC, Core
from headwater.groups.consumer.embedded import (
    EmbeddedSubscription,
    read_subscription,
    write_assignment,
)
from headwater.groups.consumer.members import (
    ClassicFacts,
    Facts,
    Holding,
    Member,
    MemberState,
    sorted_partitions,
)
from headwater.groups.consumer.migration import by_name, may_replace
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.machine import Effects, Ticket
from headwater.groups.requests import (
    Assignment,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headwater.wire.error_codes import Code

__all__ = ("ClassicMembers",)


class ClassicMembers(Core):
    """A consumer group as classic members see it; all their requests are answered at once."""

    def join(
        self, ticket: Ticket, request: JoinRequest, topics: TopicsImage, now: float, now_ms: int
    ) -> Effects:
        """JoinGroup; an empty group becomes a classic one."""
        if self.empty:
            return self._join_alone(ticket, request, now, now_ms)
        self._topics = topics
        reply = self._join(request, topics, now, now_ms)
        effects = self._effects()
        effects.replies.append((ticket, reply))
        return effects

    def sync(self, ticket: Ticket, request: SyncRequest, now: float, now_ms: int) -> Effects:
        """SyncGroup: the member gets what it holds."""
        return Effects(replies=[(ticket, self._sync(request, now))])

    def classic_heartbeat(self, request: HeartbeatRequest, now: float) -> int:
        """The error code; a member that has a step to take is told to join again (27)."""
        member = self._find_classic(request.member_id, request.instance_id)
        if not isinstance(member, Member):
            return member
        if member.holding.epoch != request.generation:
            return Code.ILLEGAL_GENERATION
        self._start_session(member, now)
        if not self._has_a_step(member):
            return Code.NONE
        self._await_join(member, now)
        return Code.REBALANCE_IN_PROGRESS

    def leave(
        self, members: Sequence[LeavingMember], now: float, now_ms: int
    ) -> tuple[LeaveReply, Effects]:
        """LeaveGroup, by which administrators remove members of either protocol."""
        leaving: set[str] = set()
        replies = []
        for each in members:
            found = self._find_leaving(each)
            code = found.code if isinstance(found, Refusal) else Code.NONE
            replies.append((each.member_id, each.instance_id, int(code)))
            if isinstance(found, Member):
                leaving.add(found.id)
        if leaving:
            self._fence(sorted(leaving), now, now_ms)
        return LeaveReply(members=tuple(replies)), self._effects()

    # JoinGroup

    def _join_alone(self, ticket: Ticket, request: JoinRequest, now: float, now_ms: int) -> Effects:
        if request.member_id:
            reply = JoinReply(error=Code.UNKNOWN_MEMBER_ID, member_id=request.member_id)
            return Effects(replies=[(ticket, reply)])
        group = ClassicGroup(self.group_id, self.settings, self._rng, now_ms)
        effects = group.join(ticket, request, now, now_ms)
        effects.records = self._state.tombstones() | effects.records
        effects.become = group
        return effects

    def _join(
        self, request: JoinRequest, topics: TopicsImage, now: float, now_ms: int
    ) -> JoinReply:
        request = replace(request, protocols=distinct_protocols(request))
        code = self._join_refusal(request)
        if code:
            return JoinReply(error=code)
        member_id = request.member_id or self._new_id()
        if request.requires_known_member_id and not request.member_id and not request.instance_id:
            return JoinReply(error=Code.MEMBER_ID_REQUIRED, member_id=member_id)
        subscription = read_subscription(request.protocols[0][1])
        if subscription is None:
            return JoinReply(error=Code.INCONSISTENT_GROUP_PROTOCOL)
        if subscription.owned and not request.instance_id and member_id not in self._state.members:
            # It was fenced and has not heard of it: others may read what it thinks it owns.
            return JoinReply(error=Code.UNKNOWN_MEMBER_ID, member_id=member_id)
        found = self._find_with_room(member_id, request, subscription, topics)
        if isinstance(found, Refusal):
            return JoinReply(error=found.code)
        # The last one of the new protocol comes back with the old one.
        downgrades = found.id in self._state.members and may_replace(
            self._state, found, self.settings
        )
        facts = _told(found.facts, request, subscription)
        member = self._admit_classic(found, member_id, request)
        owned = _owned(subscription, topics)
        if downgrades:
            member = self._advance_and_downgrade(member, facts, topics, owned, now, now_ms)
        else:
            member = self._advance(member, facts, topics, owned, now)
            self._forget_timers(member.id)
            self._start_session(member, now)
            self._timers.set(SYNC + member.id, now + request.rebalance_timeout_ms / 1000)
        return JoinReply(
            generation=member.holding.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0][0],
            member_id=member.id,
        )

    def _join_refusal(self, request: JoinRequest) -> int:
        settings, state = self.settings, self._state
        timeout_ms = request.session_timeout_ms
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            return Code.INVALID_SESSION_TIMEOUT
        if len(state.members) >= settings.max_size and request.member_id not in state.members:
            return Code.GROUP_MAX_SIZE_REACHED
        common = any(
            state.classic_protocols[name] == state.classic_members for name, _ in request.protocols
        )
        if request.protocol_type != CONSUMER or not common:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if member_bytes((), request.protocols) > RECORD_MAX_BYTES:
            return Code.UNKNOWN_SERVER_ERROR
        return Code.NONE

    def _find_with_room(
        self,
        member_id: str,
        request: JoinRequest,
        subscription: EmbeddedSubscription,
        topics: TopicsImage,
    ) -> Member | Refusal:
        found = self._find_joining(member_id, request)
        if isinstance(found, Refusal):
            return found
        fits = self._state.has_room_for(found, _told(found.facts, request, subscription), topics)
        return found if fits else checks.too_large(self.group_id)

    def _find_joining(self, member_id: str, request: JoinRequest) -> Member | Refusal:
        """The member that joins, the static one whose place it takes, or a blank one."""
        blank = Member(member_id, Facts(client=request.client), Holding())
        known = self._state.members.get(member_id, blank)
        if request.instance_id is None:
            return known
        static = self._state.static_member(request.instance_id)
        if not request.member_id:
            return static or known
        if static is None:
            return checks.unknown_instance(request.instance_id)
        return checks.fenced_instance(static, request.member_id) or static

    def _admit_classic(self, found: Member, member_id: str, request: JoinRequest) -> Member:
        if found.id not in self._state.members:
            self._state.add(found)
            return found
        if request.instance_id is None or request.member_id:
            return found
        self._forget_timers(found.id)
        return self._state.replace_static(found, member_id)

    def _advance_and_downgrade(
        self,
        member: Member,
        facts: Facts,
        topics: TopicsImage,
        owned: Assignment,
        now: float,
        now_ms: int,
    ) -> Member:
        changed = (facts.topic_names, facts.topic_regex) != (
            member.facts.topic_names,
            member.facts.topic_regex,
        )
        member = self._state.set_facts(member, facts)
        if not changed:
            member = self._state.reconcile(member, topics, owned, subscription_changed=False)
        self._downgrade(now, now_ms, rebalance=changed)
        return member

    # The others

    def _sync(self, request: SyncRequest, now: float) -> SyncReply:
        member = self._find_classic(request.member_id, request.instance_id)
        if not isinstance(member, Member):
            return SyncReply(error=member)
        code = self._sync_refusal(member, request, now)
        if code:
            return SyncReply(error=code)
        self._timers.cancel(SYNC + member.id)
        self._start_session(member, now)
        assigned = by_name(sorted_partitions(member.holding.assigned).items(), self._topics)
        return SyncReply(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, _protocols(member)[0][1]),
        )

    def _sync_refusal(self, member: Member, request: SyncRequest, now: float) -> int:
        if member.holding.epoch != request.generation:
            return Code.ILLEGAL_GENERATION
        name = _protocols(member)[0][0]
        if request.protocol_type not in {None, CONSUMER} or request.protocol_name not in {
            None,
            name,
        }:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        behind = self._state.epoch > member.holding.epoch
        # Without topics, which a join brings, a coordinator cannot tell their names.
        if self._topics is None or (behind and member.holding.state is not MemberState.UNREVOKED):
            self._await_join(member, now)
            return Code.REBALANCE_IN_PROGRESS
        return Code.NONE

    def _find_classic(self, member_id: str, instance_id: str | None) -> Member | int:
        """The member, or an error code."""
        if instance_id is None:
            member = self._state.members.get(member_id)
        else:
            member = self._state.static_member(instance_id)
            if member is not None and member.id != member_id:
                return Code.FENCED_INSTANCE_ID
        if member is None or not member.classic:
            return Code.UNKNOWN_MEMBER_ID
        return member

    def _find_leaving(self, leaving: LeavingMember) -> Member | Refusal:
        if leaving.instance_id is None:
            member = self._state.members.get(leaving.member_id)
            return member or checks.unknown_member(self.group_id, leaving.member_id)
        member = self._state.static_member(leaving.instance_id)
        if member is None:
            return checks.unknown_instance(leaving.instance_id)
        if not leaving.member_id:  # an administrator knows the instance only
            return member
        return checks.fenced_instance(member, leaving.member_id) or member

    def _has_a_step(self, member: Member) -> bool:
        holding = member.holding
        if holding.epoch < self._state.epoch or holding.state is MemberState.UNREVOKED:
            return True
        return holding.state is MemberState.UNRELEASED and not self._state.waits(member)

    def _await_join(self, member: Member, now: float) -> None:
        """It has its rebalance timeout for joining, from when it was first told to."""
        if member.id not in self._called_to_join:
            self._called_to_join.add(member.id)
            self._timers.set(JOIN + member.id, now + member.facts.rebalance_timeout_ms / 1000)


def _protocols(member: Member) -> tuple[tuple[str, bytes], ...]:
    assert member.facts.classic is not None
    return member.facts.classic.protocols


def _told(facts: Facts, request: JoinRequest, subscription: EmbeddedSubscription) -> Facts:
    return replace(
        facts,
        client=request.client,
        instance_id=facts.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or facts.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=subscription.topics,
        topic_regex="",
        classic=ClassicFacts(request.session_timeout_ms, request.protocols),
    )


def _owned(subscription: EmbeddedSubscription, topics: TopicsImage) -> Assignment:
    found = {}
    for name, numbers in subscription.owned.items():
        topic = topics.get(name)
        if topic is not None:
            found[topic.id] = numbers
    return found
