"""How a consumer group looks from outside."""

from headwater.groups.consumer.assignors import Partitions
from headwater.groups.consumer.members import Held, Member, sorted_partitions
from headwater.groups.consumer.state import NOTHING, GroupState
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.requests import Assignment, ConsumerDescription, ConsumerMemberDescription

__all__ = ("describe", "state_name")

_CLASSIC, _CONSUMER = 0, 1


def state_name(state: GroupState) -> str:
    if not state.members:
        return "Empty"
    epoch = state.assignment_epoch
    if state.epoch > epoch:
        return "Assigning"
    if all(member.holding.reconciled_to(epoch) for member in state.members.values()):
        return "Stable"
    return "Reconciling"


def describe(state: GroupState, topics: TopicsImage) -> ConsumerDescription:
    """As ConsumerGroupDescribe shows it; topics that are gone are left out."""
    return ConsumerDescription(
        state=state_name(state),
        epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor=state.assignor,
        members=tuple(
            _describe_member(member, state.targets.get(member_id, NOTHING), topics)
            for member_id, member in sorted(state.members.items())
        ),
    )


def _describe_member(
    member: Member, target: Partitions, topics: TopicsImage
) -> ConsumerMemberDescription:
    facts = member.facts
    return ConsumerMemberDescription(
        member_id=member.id,
        instance_id=facts.instance_id,
        rack_id=facts.rack_id,
        epoch=member.holding.epoch,
        client=facts.client,
        topic_names=tuple(sorted(facts.topic_names)),
        topic_regex=facts.topic_regex,
        assigned=_existing(member.holding.assigned, topics),
        target=_existing(target, topics),
        member_type=_CLASSIC if member.classic else _CONSUMER,
    )


def _existing(partitions: Partitions | Held, topics: TopicsImage) -> Assignment:
    return {
        topic: numbers
        for topic, numbers in sorted_partitions(partitions).items()
        if topics.get_by_id(topic) is not None
    }
