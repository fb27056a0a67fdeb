"""ConsumerGroupHeartbeat, versions 0-1 (KIP-848).

Behaviour: the one request of a consumer group's members. Epoch 0 joins, -1 leaves, and -2 lets a
static member leave for a while. The reply has the member's epoch and, if it changed, its
assignment.

Codes: UNKNOWN_SERVER_ERROR (-1): the group's state would be too large; COORDINATOR_LOAD_IN_PROGRESS
(14); COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); INVALID_GROUP_ID (24); UNKNOWN_MEMBER_ID
(25); TOPIC_AUTHORIZATION_FAILED (29); INVALID_REQUEST (42) with a message: contradictory fields;
GROUP_MAX_SIZE_REACHED (81); FENCED_INSTANCE_ID (82); FENCED_MEMBER_EPOCH (110);
UNRELEASED_INSTANCE_ID (111); UNSUPPORTED_ASSIGNOR (112); INVALID_REGULAR_EXPRESSION (128).

Notes by version: from 1 on the member chooses its id and may subscribe by a pattern.

Left out: nothing.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_members import (
    client_of,
    milliseconds,
    read_assignment,
    show_assignment,
)
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.groups.consumer.checks import request_refusal
from headwater.groups.requests import ConsumerHeartbeatReply, ConsumerHeartbeatRequest
from headwater.wire.messages.api_versions import ApiKey


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Checks that do not depend on the group's state are made here."""
    heartbeat = _read(request, context)
    for name in heartbeat.topic_names or ():
        services.topics.require(context.session, name, Operation.DESCRIBE)
    refusal = request_refusal(request.group_id, heartbeat)
    if refusal is not None:
        reply = ConsumerHeartbeatReply(error=refusal.code, message=refusal.message)
    else:
        try:
            reply = await services.groups.consumer_heartbeat(request.group_id, heartbeat)
        except KafkaError as error:
            reply = ConsumerHeartbeatReply(error=error.code, message=str(error) or None)
    shown: Values = {
        "error_code": reply.error,
        "error_message": reply.message,
        "member_id": reply.member_id,
        "member_epoch": reply.epoch,
        "heartbeat_interval": reply.heartbeat_interval_ms,
    }
    if reply.assignment is not None:
        shown["assignment"] = {"topic_partitions": show_assignment(reply.assignment)}
    return shown


def _read(request: Any, context: RequestContext) -> ConsumerHeartbeatRequest:
    owned, names = request.topic_partitions, request.subscribed_topic_names
    return ConsumerHeartbeatRequest(
        client=client_of(context),
        member_id=request.member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topic_names=None if names is None else tuple(names),
        topic_regex=optional_field(request, "subscribed_topic_regex", default=None),
        assignor=request.server_assignor,
        owned=None if owned is None else read_assignment(owned),
        version=context.version,
    )


API = Api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "ConsumerGroupHeartbeat",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
