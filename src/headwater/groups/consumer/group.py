"""Consumer groups (KIP-848): the coordinator assigns partitions, members follow by heartbeats.

There are three epochs. The *group epoch* grows with every change of members, subscriptions or
topics. The *assignment epoch* is the group epoch for which the last target was computed. A *member
epoch* is the assignment epoch that a member has reached. A member first revokes the partitions that
are not in its target, then confirms that, and then gets partitions that other members have
released.

``classic_members`` handles members of such a group that use the classic protocol.
"""

from dataclasses import replace
from random import Random

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.consumer import checks
from headwater.groups.consumer.checks import Refusal
from headwater.groups.consumer.classic_members import ClassicMembers
from headwater.groups.consumer.group_core import REBALANCE
from headwater.groups.consumer.members import (
    LEAVE_TEMPORARILY,
    ConsumerFacts,
    ConsumerMember,
    CurrentAssignment,
    sorted_partitions,
)
from headwater.groups.consumer.migration import to_consumer
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.machine import Effects
from headwater.groups.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code

__all__ = ("ConsumerGroup",)


class ConsumerGroup(ClassicMembers):
    """A machine (``groups.machine``) for one consumer group; a new one has no members."""

    @classmethod
    def upgrade(
        cls,
        classic: ClassicGroup,
        request: ConsumerHeartbeatRequest,
        topics: TopicsImage,
        settings: GroupSettings,
        rng: Random,
        now: float,
        now_ms: int,
    ) -> tuple[ConsumerHeartbeatReply, Effects]:
        """A member with the new protocol joins a classic group.

        If the group may be converted, ``become`` is the consumer group with the classic members,
        and their waiting requests are answered. Otherwise nothing changes and the reply says why.
        """
        refusal = checks.request_refusal(classic.group_id, request)
        if refusal is None and request.epoch:
            message = f"Group {classic.group_id} is not a consumer group."
            refusal = Refusal(Code.GROUP_ID_NOT_FOUND, message)
        if refusal is not None:
            return _refuse(refusal), Effects()
        group = cls(classic.group_id, settings, rng)
        if not classic.empty:
            state = to_consumer(classic, topics, settings)
            if isinstance(state, Refusal):
                return _refuse(state), Effects()
            group._state = state
            for member in state.members.values():
                group._start_session(member, now)
        reply, effects = group.heartbeat(request, topics, now, now_ms)
        if reply.error:
            return reply, Effects()
        retired = classic.retire(Code.REBALANCE_IN_PROGRESS, now, now_ms)
        retired.records |= effects.records
        retired.become = group
        return reply, retired

    def heartbeat(
        self, request: ConsumerHeartbeatRequest, topics: TopicsImage, now: float, now_ms: int
    ) -> tuple[ConsumerHeartbeatReply, Effects]:
        """ConsumerGroupHeartbeat: joins, continues or leaves."""
        member = self._state.members.get(request.member_id)
        if member is not None and self._is_unchanged(member, request, topics, now):
            self._start_session(member, now)
            return self._reply(member), Effects()
        refusal = checks.request_refusal(self.group_id, request)
        if refusal is not None:
            return _refuse(refusal), Effects()
        if request.epoch < 0:
            reply = self._leave_by_heartbeat(request, now, now_ms)
        else:
            reply = self._continue(request, topics, now)
        return reply, self._effects()

    def _is_unchanged(
        self,
        member: ConsumerMember,
        request: ConsumerHeartbeatRequest,
        topics: TopicsImage,
        now: float,
    ) -> bool:
        """True for nearly all heartbeats; this check reads no other member and no partition."""
        state, facts = self._state, member.facts
        return (
            request.epoch == state.epoch == state.assignment_epoch
            and request.owned is None
            and request.topic_names is None
            and request.topic_regex is None
            and request.assignor is None
            and request.rack_id is None
            and request.rebalance_timeout_ms == -1
            and request.instance_id == facts.instance_id
            and request.client == facts.client
            and facts.classic is None
            and member.current.reconciled_to(state.epoch)
            and topics.version == self._topics_version
            and not self._patterns_due(now)
        )

    def _continue(
        self, request: ConsumerHeartbeatRequest, topics: TopicsImage, now: float
    ) -> ConsumerHeartbeatReply:
        found = self._find(request)
        if isinstance(found, Refusal):
            return _refuse(found)
        facts = _updated_facts(found.facts, request)
        refusal = checks.pattern_refusal(found.facts, facts, topics)
        if refusal is not None:
            return _refuse(refusal)
        if facts != found.facts and not self._state.has_room_for(found, facts, topics):
            return _refuse(checks.too_large(self.group_id))
        member = self._admit(found, request)
        before = member.current.assigned
        member = self._advance(member, facts, topics, request.owned, now)
        self._start_session(member, now)
        full = (
            request.rebalance_timeout_ms != -1
            and (request.topic_names is not None or request.topic_regex is not None)
            and request.owned is not None
        )
        changed = sorted_partitions(member.current.assigned) != sorted_partitions(before)
        return self._reply(member, assignment=request.epoch == 0 or full or changed)

    def _find(self, request: ConsumerHeartbeatRequest) -> ConsumerMember | Refusal:
        """The member that sends a heartbeat, the static member that it replaces, or a new one."""
        members = self._state.members
        if request.epoch and self._state.epoch == 0:
            return Refusal(Code.GROUP_ID_NOT_FOUND, f"Consumer group {self.group_id} not found.")
        if len(members) >= self.settings.max_size and request.member_id not in members:
            return Refusal(
                Code.GROUP_MAX_SIZE_REACHED,
                "The consumer group has reached its maximum capacity of "
                f"{self.settings.max_size} members.",
            )
        if request.instance_id is not None:
            return self._find_static(request, request.instance_id)
        member = members.get(request.member_id)
        if member is None:
            if request.epoch:
                return checks.unknown_member(self.group_id, request.member_id)
            return ConsumerMember(
                request.member_id, ConsumerFacts(client=request.client), CurrentAssignment()
            )
        return checks.epoch_refusal(member, request) or member

    def _find_static(
        self, request: ConsumerHeartbeatRequest, instance_id: str
    ) -> ConsumerMember | Refusal:
        member = self._state.static_member(instance_id)
        if request.epoch == 0:
            if member is not None:
                return checks.unreleased_instance(member, request.member_id) or member
            blank = ConsumerMember(
                request.member_id, ConsumerFacts(client=request.client), CurrentAssignment()
            )
            return self._state.members.get(request.member_id, blank)
        if member is None:
            return checks.unknown_instance(instance_id)
        refusal = checks.fenced_instance(member, request.member_id)
        return refusal or checks.epoch_refusal(member, request) or member

    def _admit(self, found: ConsumerMember, request: ConsumerHeartbeatRequest) -> ConsumerMember:
        """Add a new member, or replace its static predecessor."""
        joins_statically = request.epoch == 0 and request.instance_id is not None
        takes_a_place = joins_statically and found.facts.instance_id == request.instance_id
        if takes_a_place and not (found.present and found.id == request.member_id):
            self._cancel_timers(found.id)
            return self._state.replace_static(found, request.member_id or self._new_id())
        if found.classic:
            self._cancel_timers(found.id)
        if found.id in self._state.members:
            return found
        member = replace(found, id=found.id or self._new_id())
        self._state.add(member)
        return member

    def _leave_by_heartbeat(
        self, request: ConsumerHeartbeatRequest, now: float, now_ms: int
    ) -> ConsumerHeartbeatReply:
        state = self._state
        if request.instance_id is None:
            member = state.members.get(request.member_id)
            if member is None:
                return _refuse(checks.unknown_member(self.group_id, request.member_id))
        else:
            member = state.static_member(request.instance_id)
            if member is None:
                return _refuse(checks.unknown_instance(request.instance_id))
            refusal = checks.fenced_instance(member, request.member_id)
            if refusal is not None:
                return _refuse(refusal)
        if request.epoch == LEAVE_TEMPORARILY:
            # It reads nothing any more, so the partitions that it was revoking are free.
            state.set_current(member, replace(member.current, epoch=request.epoch, revoking={}))
            self._timers.cancel(REBALANCE + member.id)
        else:
            self._fence([member.id], now, now_ms)
        return ConsumerHeartbeatReply(member_id=member.id, epoch=request.epoch)

    def _reply(self, member: ConsumerMember, *, assignment: bool = False) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(
            member_id=member.id,
            epoch=member.current.epoch,
            heartbeat_interval_ms=self.settings.consumer_heartbeat_interval_ms,
            assignment=sorted_partitions(member.current.assigned) if assignment else None,
        )


def _updated_facts(facts: ConsumerFacts, request: ConsumerHeartbeatRequest) -> ConsumerFacts:
    """A member's facts with the changes of a heartbeat."""
    timeout_ms, names = request.rebalance_timeout_ms, request.topic_names
    regex, assignor = request.topic_regex, request.assignor
    return replace(
        facts,
        client=request.client,
        instance_id=facts.instance_id if request.instance_id is None else request.instance_id,
        rack_id=facts.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=facts.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=facts.topic_names if names is None else frozenset(names),
        topic_regex=facts.topic_regex if regex is None else regex,
        assignor=facts.assignor if assignor is None else assignor,
        classic=None,
    )


def _refuse(refusal: Refusal) -> ConsumerHeartbeatReply:
    return ConsumerHeartbeatReply(error=refusal.code, message=refusal.message)
