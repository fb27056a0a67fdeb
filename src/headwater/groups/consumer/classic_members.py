"""Members of a consumer group that use the classic protocol, while an application migrates.

To each of them the group looks like a classic group that rebalances for this member alone:
SyncGroup returns its current assignment, and REBALANCE_IN_PROGRESS makes it join for the next step.
No member is the leader, so that none computes assignments.
"""

from collections.abc import Sequence
from dataclasses import replace

from headwater.groups.bounds import RECORD_MAX_BYTES, member_bytes
from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.member import distinct_protocols
from headwater.groups.classic.subscription import CONSUMER
from headwater.groups.consumer import checks
from headwater.groups.consumer.checks import Refusal
from headwater.groups.consumer.consumer_protocol import (
    EmbeddedSubscription,
    read_subscription,
    write_assignment,
)
from headwater.groups.consumer.group_core import JOIN, SYNC, ConsumerGroupCore
from headwater.groups.consumer.members import (
    ClassicProtocolFacts,
    ConsumerFacts,
    ConsumerMember,
    CurrentAssignment,
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


class ClassicMembers(ConsumerGroupCore):
    """A consumer group with the classic protocol; all its requests are answered at once."""

    def join(
        self, ticket: Ticket, request: JoinRequest, topics: TopicsImage, now: float, now_ms: int
    ) -> Effects:
        """JoinGroup; an empty group becomes a classic one."""
        if self.empty:
            return self._join_empty_group(ticket, request, now, now_ms)
        self._topics = topics
        reply = self._join(request, topics, now, now_ms)
        effects = self._effects()
        effects.replies.append((ticket, reply))
        return effects

    def sync(self, ticket: Ticket, request: SyncRequest, now: float, now_ms: int) -> Effects:
        """SyncGroup: returns the member's current assignment."""
        return Effects(replies=[(ticket, self._sync(request, now))])

    def classic_heartbeat(self, request: HeartbeatRequest, now: float) -> int:
        """The error code; error 27 makes a member with a pending step join again."""
        member = self._find_classic(request.member_id, request.instance_id)
        if not isinstance(member, ConsumerMember):
            return member
        if member.current.epoch != request.generation:
            return Code.ILLEGAL_GENERATION
        self._start_session(member, now)
        if not self._has_pending_step(member):
            return Code.NONE
        self._await_join(member, now)
        return Code.REBALANCE_IN_PROGRESS

    def leave(
        self, members: Sequence[LeavingMember], now: float, now_ms: int
    ) -> tuple[LeaveReply, Effects]:
        """LeaveGroup; administrators use it to remove members of both protocols."""
        leaving: set[str] = set()
        replies = []
        for each in members:
            found = self._find_leaving(each)
            code = found.code if isinstance(found, Refusal) else Code.NONE
            replies.append((each.member_id, each.instance_id, int(code)))
            if isinstance(found, ConsumerMember):
                leaving.add(found.id)
        if leaving:
            self._fence(sorted(leaving), now, now_ms)
        return LeaveReply(members=tuple(replies)), self._effects()

    # JoinGroup

    def _join_empty_group(
        self, ticket: Ticket, request: JoinRequest, now: float, now_ms: int
    ) -> Effects:
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
            # It was fenced and does not know it: others may read the partitions that it owns.
            return JoinReply(error=Code.UNKNOWN_MEMBER_ID, member_id=member_id)
        found = self._find_with_room(member_id, request, subscription, topics)
        if isinstance(found, Refusal):
            return JoinReply(error=found.code)
        # The last member with the new protocol rejoins with the classic one.
        downgrades = found.id in self._state.members and may_replace(
            self._state, found, self.settings
        )
        facts = _updated_facts(found.facts, request, subscription)
        member = self._admit_classic(found, member_id, request)
        owned = _owned(subscription, topics)
        if downgrades:
            member = self._advance_and_downgrade(member, facts, topics, owned, now, now_ms)
        else:
            member = self._advance(member, facts, topics, owned, now)
            self._cancel_timers(member.id)
            self._start_session(member, now)
            self._timers.set(SYNC + member.id, now + request.rebalance_timeout_ms / 1000)
        return JoinReply(
            generation=member.current.epoch,
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
    ) -> ConsumerMember | Refusal:
        found = self._find_joining(member_id, request)
        if isinstance(found, Refusal):
            return found
        fits = self._state.has_room_for(
            found, _updated_facts(found.facts, request, subscription), topics
        )
        return found if fits else checks.too_large(self.group_id)

    def _find_joining(self, member_id: str, request: JoinRequest) -> ConsumerMember | Refusal:
        """The joining member, the static member that it replaces, or a new one."""
        blank = ConsumerMember(member_id, ConsumerFacts(client=request.client), CurrentAssignment())
        known = self._state.members.get(member_id, blank)
        if request.instance_id is None:
            return known
        static = self._state.static_member(request.instance_id)
        if not request.member_id:
            return static or known
        if static is None:
            return checks.unknown_instance(request.instance_id)
        return checks.fenced_instance(static, request.member_id) or static

    def _admit_classic(
        self, found: ConsumerMember, member_id: str, request: JoinRequest
    ) -> ConsumerMember:
        if found.id not in self._state.members:
            self._state.add(found)
            return found
        if request.instance_id is None or request.member_id:
            return found
        self._cancel_timers(found.id)
        return self._state.replace_static(found, member_id)

    def _advance_and_downgrade(
        self,
        member: ConsumerMember,
        facts: ConsumerFacts,
        topics: TopicsImage,
        owned: Assignment,
        now: float,
        now_ms: int,
    ) -> ConsumerMember:
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
        if not isinstance(member, ConsumerMember):
            return SyncReply(error=member)
        code = self._sync_refusal(member, request, now)
        if code:
            return SyncReply(error=code)
        self._timers.cancel(SYNC + member.id)
        self._start_session(member, now)
        assigned = by_name(sorted_partitions(member.current.assigned).items(), self._topics)
        return SyncReply(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, _protocols(member)[0][1]),
        )

    def _sync_refusal(self, member: ConsumerMember, request: SyncRequest, now: float) -> int:
        if member.current.epoch != request.generation:
            return Code.ILLEGAL_GENERATION
        name = _protocols(member)[0][0]
        if request.protocol_type not in {None, CONSUMER} or request.protocol_name not in {
            None,
            name,
        }:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        behind = self._state.epoch > member.current.epoch
        # Without the topics of a join, the coordinator does not know the topic names.
        if self._topics is None or (behind and member.current.state is not MemberState.UNREVOKED):
            self._await_join(member, now)
            return Code.REBALANCE_IN_PROGRESS
        return Code.NONE

    def _find_classic(self, member_id: str, instance_id: str | None) -> ConsumerMember | int:
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

    def _find_leaving(self, leaving: LeavingMember) -> ConsumerMember | Refusal:
        if leaving.instance_id is None:
            member = self._state.members.get(leaving.member_id)
            return member or checks.unknown_member(self.group_id, leaving.member_id)
        member = self._state.static_member(leaving.instance_id)
        if member is None:
            return checks.unknown_instance(leaving.instance_id)
        if not leaving.member_id:  # an administrator knows the instance only
            return member
        return checks.fenced_instance(member, leaving.member_id) or member

    def _has_pending_step(self, member: ConsumerMember) -> bool:
        current = member.current
        if current.epoch < self._state.epoch or current.state is MemberState.UNREVOKED:
            return True
        return current.state is MemberState.UNRELEASED and not self._state.waits(member)

    def _await_join(self, member: ConsumerMember, now: float) -> None:
        """Start the ``JOIN`` timer of a member, unless it runs already."""
        if member.id not in self._awaiting_join:
            self._awaiting_join.add(member.id)
            self._timers.set(JOIN + member.id, now + member.facts.rebalance_timeout_ms / 1000)


def _protocols(member: ConsumerMember) -> tuple[tuple[str, bytes], ...]:
    assert member.facts.classic is not None
    return member.facts.classic.protocols


def _updated_facts(
    facts: ConsumerFacts, request: JoinRequest, subscription: EmbeddedSubscription
) -> ConsumerFacts:
    return replace(
        facts,
        client=request.client,
        instance_id=facts.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack_id or facts.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=subscription.topics,
        topic_regex="",
        classic=ClassicProtocolFacts(request.session_timeout_ms, request.protocols),
    )


def _owned(subscription: EmbeddedSubscription, topics: TopicsImage) -> Assignment:
    found = {}
    for name, numbers in subscription.owned.items():
        topic = topics.get(name)
        if topic is not None:
            found[topic.id] = numbers
    return found
