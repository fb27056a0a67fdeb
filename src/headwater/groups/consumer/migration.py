"""Converts a classic group to a consumer group and back, with its members.

The members keep their assignments. The generation becomes the epoch, and the epoch the generation.
"""

from collections.abc import Collection, Iterable
from random import Random
from typing import Final
from uuid import UUID

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.member import ClassicMemberState
from headwater.groups.classic.subscription import CONSUMER
from headwater.groups.consumer.checks import Refusal
from headwater.groups.consumer.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from headwater.groups.consumer.members import (
    ClassicProtocolFacts,
    ConsumerFacts,
    ConsumerMember,
    CurrentAssignment,
    PartitionEpochs,
)
from headwater.groups.consumer.state import NO_PARTITIONS, ConsumerGroupState
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.machine import Effects
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code

__all__ = ("by_name", "may_downgrade", "may_replace", "to_classic", "to_consumer")

_DOWNGRADES: Final = ("bidirectional", "downgrade")
_UPGRADES: Final = ("bidirectional", "upgrade")


def by_name(
    partitions: Iterable[tuple[UUID, Iterable[int]]], topics: TopicsImage | None
) -> dict[str, tuple[int, ...]]:
    """Partitions by topic name, without deleted topics."""
    found = {}
    for topic_id, numbers in partitions:
        topic = None if topics is None else topics.get_by_id(topic_id)
        if topic is not None:
            found[topic.name] = tuple(numbers)
    return found


# To a classic group


def may_downgrade(
    state: ConsumerGroupState, leaving: Collection[str], settings: GroupSettings
) -> bool:
    """Whether at least one and only classic members would be left, and the policy allows it."""
    left = len(state.members) - len(leaving)
    classic = state.classic_members - sum(state.members[each].classic for each in leaving)
    return (
        0 < left <= settings.max_size
        and classic == left
        and settings.consumer_migration_policy in _DOWNGRADES
    )


def may_replace(state: ConsumerGroupState, member: ConsumerMember, settings: GroupSettings) -> bool:
    """Whether only ``member`` uses the new protocol, and may rejoin with the classic one."""
    return (
        not member.classic
        and state.classic_members == len(state.members) - 1
        and len(state.members) <= settings.max_size
        and settings.consumer_migration_policy in _DOWNGRADES
    )


def to_classic(
    group_id: str,
    state: ConsumerGroupState,
    topics: TopicsImage | None,
    settings: GroupSettings,
    rng: Random,
    now: float,
    now_ms: int,
) -> tuple[ClassicGroup, Effects]:
    """The classic group with all members of ``state`` and their targets; the records of both."""
    members = [
        _classic_member(member, member.facts.classic, state, topics)
        for _, member in sorted(state.members.items())
        if member.facts.classic is not None
    ]
    group, effects = ClassicGroup.from_members(
        group_id,
        members,
        generation=state.epoch,
        settings=settings,
        rng=rng,
        now=now,
        now_ms=now_ms,
    )
    effects.records = state.tombstones() | effects.records
    effects.become = group
    return group, effects


def _classic_member(
    member: ConsumerMember,
    classic: ClassicProtocolFacts,
    state: ConsumerGroupState,
    topics: TopicsImage | None,
) -> ClassicMemberState:
    facts = member.facts
    target = by_name(state.targets.get(member.id, NO_PARTITIONS).items(), topics)
    return ClassicMemberState(
        member_id=member.id,
        instance_id=facts.instance_id,
        client=facts.client,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=facts.rebalance_timeout_ms,
        protocols=classic.protocols,
        assignment=write_assignment(target, classic.protocols[0][1]),
    )


# To a consumer group


def to_consumer(
    classic: ClassicGroup, topics: TopicsImage, settings: GroupSettings
) -> ConsumerGroupState | Refusal:
    """The consumer group with the members of ``classic``, which is not changed."""
    obstacle = _obstacle(classic, settings)
    if obstacle is not None:
        return _no_upgrade(classic, obstacle)
    state = ConsumerGroupState()
    state.epoch = state.assignment_epoch = classic.generation
    for each in classic.members:
        metadata = each.metadata(classic.protocol_name or each.protocols[0][0])
        subscription = read_subscription(metadata)
        assignment = read_assignment(each.assignment) if each.assignment else None
        if subscription is None or (each.assignment and assignment is None):
            return _no_upgrade(classic, "the embedded consumer protocol is malformed.")
        if assignment is not None and assignment.user_data:
            return _no_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade.",
            )
        facts = ConsumerFacts(
            client=each.client,
            instance_id=each.instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=each.rebalance_timeout_ms,
            topic_names=subscription.topics,
            classic=ClassicProtocolFacts(each.session_timeout_ms, each.protocols),
        )
        blank = ConsumerMember(each.member_id, facts, CurrentAssignment())
        if not state.has_room_for(blank, facts, topics):
            return _no_upgrade(classic, "its members' subscriptions are too large.")
        held: PartitionEpochs = {}
        if assignment is not None:
            held = _held(assignment.partitions.items(), state, topics)
        epoch = classic.generation
        current = CurrentAssignment(epoch=epoch, previous_epoch=epoch, assigned=held)
        state.add(ConsumerMember(each.member_id, facts, current))
        target = {topic: frozenset(numbers) for topic, numbers in held.items()}
        state.set_target(each.member_id, target or NO_PARTITIONS)
    state.follow(topics)
    return state


def _obstacle(classic: ClassicGroup, settings: GroupSettings) -> str | None:
    """Why the group may not be converted; None if it may."""
    if settings.consumer_migration_policy not in _UPGRADES:
        return "online upgrade is disabled."
    if classic.protocol_type != CONSUMER:
        return "the group does not use the consumer embedded protocol."
    if len(classic.members) > settings.max_size:
        return "the group size exceeds the consumer group maximum size."
    return None


def _held(
    partitions: Iterable[tuple[str, Iterable[int]]], state: ConsumerGroupState, topics: TopicsImage
) -> PartitionEpochs:
    """The existing partitions of an assignment that no other member has."""
    held = {}
    for name, numbers in partitions:
        topic = topics.get(name)
        if topic is not None:
            count = len(topic.streams)
            free = [n for n in numbers if 0 <= n < count and not state.taken(topic.id, n)]
            if free:
                held[topic.id] = dict.fromkeys(free, state.epoch)
    return held


def _no_upgrade(classic: ClassicGroup, reason: str) -> Refusal:
    return Refusal(
        Code.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}",
    )
