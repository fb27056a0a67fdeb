"""What a heartbeat is refused for, with Kafka's codes and words.

A check gives None where the request may go on.
"""

from typing import NamedTuple

from headwater.groups.bounds import MAX_TOPICS
from headwater.groups.consumer.assignors import ASSIGNORS
from headwater.groups.consumer.members import LEAVE, LEAVE_FOR_A_WHILE, Facts, Member
from headwater.groups.consumer.subscriptions import TopicsImage
from headwater.groups.requests import ConsumerHeartbeatRequest
from headwater.wire.error_codes import Code

__all__ = (
    "Refusal",
    "epoch_refusal",
    "fenced_instance",
    "pattern_refusal",
    "request_refusal",
    "too_large",
    "unknown_instance",
    "unknown_member",
    "unreleased_instance",
)

_MEMBERS_CHOOSE_IDS = 1
"""The version from which a client makes its member id itself (KIP-1082)."""


_LONGEST_SHOWN = 200
"""Characters of a faulty pattern in the message."""


class Refusal(NamedTuple):
    code: Code
    message: str


def request_refusal(group_id: str, request: ConsumerHeartbeatRequest) -> Refusal | None:
    """Requests that contradict themselves (42) or name an assignor that there is not (112)."""
    fault = _fault(group_id, request)
    if fault is not None:
        return Refusal(Code.INVALID_REQUEST, fault)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        return Refusal(
            Code.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.assignor} is not supported. "
            f"Supported assignors: {', '.join(ASSIGNORS)}.",
        )
    return None


def _fault(group_id: str, request: ConsumerHeartbeatRequest) -> str | None:
    needs_id = request.version >= _MEMBERS_CHOOSE_IDS or request.epoch > 0 or request.epoch == LEAVE
    names = {
        "MemberId": request.member_id if needs_id else None,
        "GroupId": group_id,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
    }
    for name, value in names.items():
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if len(request.topic_names or ()) > MAX_TOPICS:
        return f"SubscribedTopicNames can't have more than {MAX_TOPICS} names."
    if request.epoch == 0:
        return _join_fault(request)
    if request.epoch == LEAVE_FOR_A_WHILE and request.instance_id is None:
        return "InstanceId can't be null."
    if request.epoch < LEAVE_FOR_A_WHILE:
        return "MemberEpoch is invalid."
    return None


def _join_fault(request: ConsumerHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        return (
            "Either SubscribedTopicNames or SubscribedTopicRegex must"
            " be non-null when (re-)joining."
        )
    return None


def pattern_refusal(before: Facts, after: Facts, topics: TopicsImage) -> Refusal | None:
    pattern = after.topic_regex
    if not pattern or pattern == before.topic_regex:
        return None
    fault = topics.matched(pattern).fault
    if fault is None:
        return None
    return Refusal(
        Code.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern[:_LONGEST_SHOWN]}` is not a valid regular expression: "
        f"{fault}.",
    )


def too_large(group_id: str) -> Refusal:
    return Refusal(
        Code.UNKNOWN_SERVER_ERROR,
        f"The subscriptions of group {group_id} would be larger than what is stored of a group, "
        "or of more topics and partitions than can be shared out.",
    )


def epoch_refusal(member: Member, request: ConsumerHeartbeatRequest) -> Refusal | None:
    """A member with another epoch than it was given must start anew (110).

    The epoch before is good too while it owns nothing beyond what it was given: the reply with
    the later one may have been lost.
    """
    known, given = member.holding.epoch, request.epoch
    lost_a_reply = given < known and given == member.holding.previous_epoch
    if given in (0, known) or (lost_a_reply and member.holding.covers(request.owned)):
        return None
    word = "greater" if given > known else "smaller"
    return Refusal(
        Code.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {word} member epoch ({given}) than the one known by "
        f"the group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(
        Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def unknown_instance(instance_id: str) -> Refusal:
    return Refusal(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(member: Member, member_id: str) -> Refusal | None:
    """Another took that static member's place."""
    if member.id == member_id:
        return None
    return Refusal(
        Code.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {member.facts.instance_id} was fenced by "
        f"member {member.id}.",
    )


def unreleased_instance(member: Member, member_id: str) -> Refusal | None:
    """A static member's place is free only when it left or fell silent, or for itself.

    A member that joins again under its own id did not get the reply to its first attempt. Kafka
    refuses that too, and clients take the refusal for fatal.
    """
    if member.id == member_id or not member.present:
        return None
    return Refusal(
        Code.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {member.facts.instance_id} cannot join the "
        f"group because the instance id is owned by {member.id} member.",
    )
