"""ConsumerGroupDescribe, and the state of a consumer group."""

from headwater.groups.consumer.assignors import Partitions
from headwater.groups.consumer.members import ConsumerMember, PartitionEpochs, sorted_partitions
from headwater.groups.consumer.state import NO_PARTITIONS, ConsumerGroupState
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.requests import Assignment, ConsumerDescription, ConsumerMemberDescription

__all__ = ("describe", "state_name")

_CLASSIC, _CONSUMER = 0, 1


def state_name(state: ConsumerGroupState) -> str:
    if not state.members:
        return "Empty"
    epoch = state.assignment_epoch
    if state.epoch > epoch:
        return "Assigning"
    if all(member.current.reconciled_to(epoch) for member in state.members.values()):
        return "Stable"
    return "Reconciling"


def describe(state: ConsumerGroupState, topics: TopicsImage) -> ConsumerDescription:
    """The answer to ConsumerGroupDescribe, without deleted topics."""
    return ConsumerDescription(
        state=state_name(state),
        epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor=state.assignor,
        members=tuple(
            _describe_member(member, state.targets.get(member_id, NO_PARTITIONS), topics)
            for member_id, member in sorted(state.members.items())
        ),
    )


def _describe_member(
    member: ConsumerMember, target: Partitions, topics: TopicsImage
) -> ConsumerMemberDescription:
    facts = member.facts
    return ConsumerMemberDescription(
        member_id=member.id,
        instance_id=facts.instance_id,
        rack_id=facts.rack_id,
        epoch=member.current.epoch,
        client=facts.client,
        topic_names=tuple(sorted(facts.topic_names)),
        topic_regex=facts.topic_regex,
        assigned=_existing(member.current.assigned, topics),
        target=_existing(target, topics),
        member_type=_CLASSIC if member.classic else _CONSUMER,
    )


def _existing(partitions: Partitions | PartitionEpochs, topics: TopicsImage) -> Assignment:
    return {
        topic: numbers
        for topic, numbers in sorted_partitions(partitions).items()
        if topics.get_by_id(topic) is not None
    }
