"""KIP-848 consumer groups: the server makes the assignment, members follow it by heartbeats.

Three epochs tie it together. The *group epoch* grows with every change of members,
subscriptions or topics; the *assignment epoch* is the group epoch for which the target was made;
a *member epoch* is the assignment epoch that a member has reached. A member first gives up what
its target does not hold, then says so, then gets what others have released.

Members of the classic protocol in such a group are in ``consumer_classic``.
"""

from dataclasses import replace
from random import Random

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.consumer import checks
from headwater.groups.consumer.checks import Refusal
from headwater.groups.consumer.classic_members import ClassicMembers
from headwater.groups.consumer.core import REBALANCE
from headwater.groups.consumer.members import (
    LEAVE_FOR_A_WHILE,
    Facts,
    Holding,
    Member,
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
        """A member of the new protocol comes to a classic group.

        Where it may, ``become`` is the consumer group, with the classic members in it and the
        requests that waited answered; else nothing changes and the reply says why.
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
        """ConsumerGroupHeartbeat: join, go on, or leave."""
        member = self._state.members.get(request.member_id)
        if member is not None and self._nothing_new(member, request, topics, now):
            self._start_session(member, now)
            return self._reply(member), Effects()
        refusal = checks.request_refusal(self.group_id, request)
        if refusal is not None:
            return _refuse(refusal), Effects()
        if request.epoch < 0:
            reply = self._leave_by_heartbeat(request, now, now_ms)
        else:
            reply = self._go_on(request, topics, now)
        return reply, self._effects()

    def _nothing_new(
        self, member: Member, request: ConsumerHeartbeatRequest, topics: TopicsImage, now: float
    ) -> bool:
        """The way of nearly all heartbeats; it looks at no other member and no partition."""
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
            and member.holding.reconciled_to(state.epoch)
            and topics.version == self._topics_version
            and not self._patterns_due(now)
        )

    def _go_on(
        self, request: ConsumerHeartbeatRequest, topics: TopicsImage, now: float
    ) -> ConsumerHeartbeatReply:
        found = self._find(request)
        if isinstance(found, Refusal):
            return _refuse(found)
        facts = _told(found.facts, request)
        refusal = checks.pattern_refusal(found.facts, facts, topics)
        if refusal is not None:
            return _refuse(refusal)
        if facts != found.facts and not self._state.has_room_for(found, facts, topics):
            return _refuse(checks.too_large(self.group_id))
        member = self._admit(found, request)
        before = member.holding.assigned
        member = self._advance(member, facts, topics, request.owned, now)
        self._start_session(member, now)
        full = (
            request.rebalance_timeout_ms != -1
            and (request.topic_names is not None or request.topic_regex is not None)
            and request.owned is not None
        )
        changed = sorted_partitions(member.holding.assigned) != sorted_partitions(before)
        return self._reply(member, assignment=request.epoch == 0 or full or changed)

    def _find(self, request: ConsumerHeartbeatRequest) -> Member | Refusal:
        """The member that a heartbeat is of, the one whose place it takes, or a blank one."""
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
            return Member(request.member_id, Facts(client=request.client), Holding())
        return checks.epoch_refusal(member, request) or member

    def _find_static(self, request: ConsumerHeartbeatRequest, instance_id: str) -> Member | Refusal:
        member = self._state.static_member(instance_id)
        if request.epoch == 0:
            if member is not None:
                return checks.unreleased_instance(member, request.member_id) or member
            blank = Member(request.member_id, Facts(client=request.client), Holding())
            return self._state.members.get(request.member_id, blank)
        if member is None:
            return checks.unknown_instance(instance_id)
        refusal = checks.fenced_instance(member, request.member_id)
        return refusal or checks.epoch_refusal(member, request) or member

    def _admit(self, found: Member, request: ConsumerHeartbeatRequest) -> Member:
        """Let a new member in, or in the place of the static one before it."""
        joins_statically = request.epoch == 0 and request.instance_id is not None
        takes_a_place = joins_statically and found.facts.instance_id == request.instance_id
        if takes_a_place and not (found.present and found.id == request.member_id):
            self._forget_timers(found.id)
            return self._state.replace_static(found, request.member_id or self._new_id())
        if found.classic:
            self._forget_timers(found.id)
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
        if request.epoch == LEAVE_FOR_A_WHILE:
            # What it was giving up is free: it reads nothing any more.
            state.set_holding(member, replace(member.holding, epoch=request.epoch, revoking={}))
            self._timers.cancel(REBALANCE + member.id)
        else:
            self._fence([member.id], now, now_ms)
        return ConsumerHeartbeatReply(member_id=member.id, epoch=request.epoch)

    def _reply(self, member: Member, *, assignment: bool = False) -> ConsumerHeartbeatReply:
        return ConsumerHeartbeatReply(
            member_id=member.id,
            epoch=member.holding.epoch,
            heartbeat_interval_ms=self.settings.consumer_heartbeat_interval_ms,
            assignment=sorted_partitions(member.holding.assigned) if assignment else None,
        )


def _told(facts: Facts, request: ConsumerHeartbeatRequest) -> Facts:
    """A member's facts with what a heartbeat says anew."""
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
