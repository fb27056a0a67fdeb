"""ConsumerGroupDescribe, versions 0-1 (KIP-848).

Behaviour: state, epochs and members of consumer groups, with the assignment and the target
assignment of each member. A group that is named twice is described once.

Codes of each group: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); INVALID_GROUP_ID (24): no
group id; TOPIC_AUTHORIZATION_FAILED (29): a member's topic that the client may not describe;
GROUP_ID_NOT_FOUND (69) with a message: there is no such group or it has another type.

Notes by version: from 1 on each member's type, because a group may have classic members during its
conversion to the consumer protocol.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource, allowed_operations
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError, TopicAuthorizationFailed
from headwater.groups.requests import (
    Assignment,
    ConsumerDescription,
    ConsumerMemberDescription,
)
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import gather_in_turns

_DELETED_TOPIC: Final = "?"
"""The name of a topic that was deleted and is still in an assignment."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One description for each group, in the order of the request."""
    operations = request.include_authorized_operations

    async def describe(group: str) -> Values:
        found = await _describe(services, context, group)
        return _show(services, context, group, found, operations=operations)

    return {"groups": await gather_in_turns(list(dict.fromkeys(request.group_ids)), describe)}


async def _describe(services: Services, context: RequestContext, group: str) -> ConsumerDescription:
    try:
        API.require(services, context, group)
        if not group:
            return ConsumerDescription(error=Code.INVALID_GROUP_ID)
        found = await services.groups.describe_consumer(group)
        _check_topics(services, context, found)
    except KafkaError as error:
        return ConsumerDescription(error=error.code, message=str(error) or None)
    return found


def _check_topics(services: Services, context: RequestContext, found: ConsumerDescription) -> None:
    """Raises ``TopicAuthorizationFailed`` unless the client may describe all assigned topics."""
    topics = services.engine.topics
    held = {each for member in found.members for each in (*member.assigned, *member.target)}
    for topic_id in held:
        topic = topics.get_by_id(topic_id)
        if topic is not None and not services.topics.allows(
            context.session, topic.name, Operation.DESCRIBE
        ):
            raise TopicAuthorizationFailed(
                "The group has described topic(s) that the client is not authorized to describe."
            )


def _show(
    services: Services,
    context: RequestContext,
    group: str,
    found: ConsumerDescription,
    *,
    operations: bool,
) -> Values:
    shown: Values = {
        "error_code": found.error,
        "error_message": found.message,
        "group_id": group,
        "group_state": "" if found.error else found.state,
        "group_epoch": found.epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor_name": found.assignor,
        "members": [_member(services, member) for member in found.members],
    }
    if operations and not found.error:
        shown["authorized_operations"] = allowed_operations(
            services.authorizer, context.session, Resource.GROUP, group
        )
    return shown


def _member(services: Services, member: ConsumerMemberDescription) -> Values:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client.id,
        "client_host": member.client.host,
        "subscribed_topic_names": member.topic_names,
        "subscribed_topic_regex": member.topic_regex,
        "assignment": _assignment(services, member.assigned),
        "target_assignment": _assignment(services, member.target),
        "member_type": member.member_type,
    }


def _assignment(services: Services, assignment: Assignment) -> Values:
    topics = services.engine.topics
    return {
        "topic_partitions": [
            {
                "topic_id": topic_id,
                "topic_name": _DELETED_TOPIC
                if (topic := topics.get_by_id(topic_id)) is None
                else topic.name,
                "partitions": partitions,
            }
            for topic_id, partitions in assignment.items()
        ]
    }


API = Api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    "ConsumerGroupDescribe",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
