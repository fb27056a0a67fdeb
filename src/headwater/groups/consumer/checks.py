"""Reasons to refuse a heartbeat, with Kafka's error codes and messages.

A check returns None if the request is allowed.
"""

from typing import NamedTuple

from headwater.groups.bounds import MAX_TOPICS
from headwater.groups.consumer.assignors import ASSIGNORS
from headwater.groups.consumer.members import (
    LEAVE,
    LEAVE_TEMPORARILY,
    ConsumerFacts,
    ConsumerMember,
)
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

_CLIENT_IDS_VERSION = 1
"""The version from which on clients choose their member ids (KIP-1082)."""


_MAX_QUOTED_CHARS = 200
"""Longest part of an invalid pattern that is quoted in the message, in characters."""


class Refusal(NamedTuple):
    code: Code
    message: str


def request_refusal(group_id: str, request: ConsumerHeartbeatRequest) -> Refusal | None:
    """Refuses contradictory requests (error 42) and unknown assignors (error 112)."""
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
    needs_id = request.version >= _CLIENT_IDS_VERSION or request.epoch > 0 or request.epoch == LEAVE
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
    if request.epoch == LEAVE_TEMPORARILY and request.instance_id is None:
        return "InstanceId can't be null."
    if request.epoch < LEAVE_TEMPORARILY:
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


def pattern_refusal(
    before: ConsumerFacts, after: ConsumerFacts, topics: TopicsImage
) -> Refusal | None:
    pattern = after.topic_regex
    if not pattern or pattern == before.topic_regex:
        return None
    fault = topics.matched(pattern).fault
    if fault is None:
        return None
    return Refusal(
        Code.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern[:_MAX_QUOTED_CHARS]}` is not a valid regular expression: "
        f"{fault}.",
    )


def too_large(group_id: str) -> Refusal:
    return Refusal(
        Code.UNKNOWN_SERVER_ERROR,
        f"The subscriptions of group {group_id} would be too large to store, "
        "or have too many topics and partitions to assign.",
    )


def epoch_refusal(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> Refusal | None:
    """A member with another epoch than its own must rejoin (error 110).

    The previous epoch is also allowed while the member owns only assigned partitions: the reply
    with the current epoch may have been lost.
    """
    known, given = member.current.epoch, request.epoch
    lost_a_reply = given < known and given == member.current.previous_epoch
    if given in (0, known) or (lost_a_reply and member.current.covers(request.owned)):
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


def fenced_instance(member: ConsumerMember, member_id: str) -> Refusal | None:
    """Refuses a member whose static instance was taken over by another member."""
    if member.id == member_id:
        return None
    return Refusal(
        Code.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {member.facts.instance_id} was fenced by "
        f"member {member.id}.",
    )


def unreleased_instance(member: ConsumerMember, member_id: str) -> Refusal | None:
    """Refuses to replace a static member that has neither left nor lost its session.

    A member that joins again with its own id is allowed: it did not get the reply to its first
    attempt. Kafka refuses that too, and clients treat the refusal as fatal.
    """
    if member.id == member_id or not member.present:
        return None
    return Refusal(
        Code.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {member.facts.instance_id} cannot join the "
        f"group because the instance id is owned by {member.id} member.",
    )
