"""SyncGroup, versions 0-5.

Behaviour: the leader sends the assignment of every member, and each member waits for its own. Later
requests of its connection wait; other connections are not affected.

Codes: UNKNOWN_SERVER_ERROR (-1): the assignments are too large; COORDINATOR_LOAD_IN_PROGRESS (14);
COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); ILLEGAL_GENERATION (22);
INCONSISTENT_GROUP_PROTOCOL (23); INVALID_GROUP_ID (24): no group id, or more than 512 bytes;
UNKNOWN_MEMBER_ID (25); REBALANCE_IN_PROGRESS (27); FENCED_INSTANCE_ID (82).

Notes by version: static members from 3; from 5 on the request must have the group's protocol type
and name (23).

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.groups.requests import SyncReply, SyncRequest
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_FIRST_VERSION_WITH_PROTOCOL: Final = 5


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Answered when the leader's assignments are durable."""
    protocol_type = optional_field(request, "protocol_type", default=None)
    protocol_name = optional_field(request, "protocol_name", default=None)
    if context.version >= _FIRST_VERSION_WITH_PROTOCOL and None in (protocol_type, protocol_name):
        reply = SyncReply(error=Code.INCONSISTENT_GROUP_PROTOCOL)
    elif not request.group_id:
        reply = SyncReply(error=Code.INVALID_GROUP_ID)
    else:
        sync = SyncRequest(
            member_id=request.member_id,
            instance_id=optional_field(request, "group_instance_id", default=None),
            generation=request.generation_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments={one.member_id: one.assignment for one in request.assignments},
        )
        try:
            reply = await services.groups.sync(request.group_id, sync)
        except KafkaError as error:
            reply = SyncReply(error=error.code)
    return {
        "error_code": reply.error,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol_name,
        "assignment": reply.assignment,
    }


API = Api(
    ApiKey.SYNC_GROUP,
    "SyncGroup",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
