"""JoinGroup, versions 0-9.

Behaviour: a member joins a classic group. The reply is sent when all members have joined, or when
the rebalance timeout is over. Until then later requests of this connection wait, as in Kafka; other
connections are not affected.

Codes: UNKNOWN_SERVER_ERROR (-1): the member or the group would be too large;
COORDINATOR_LOAD_IN_PROGRESS (14); COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16);
ILLEGAL_GENERATION (22); INCONSISTENT_GROUP_PROTOCOL (23); INVALID_GROUP_ID (24): no group id, or
more than 512 bytes; UNKNOWN_MEMBER_ID (25); INVALID_SESSION_TIMEOUT (26); MEMBER_ID_REQUIRED (79);
GROUP_MAX_SIZE_REACHED (81); FENCED_INSTANCE_ID (82).

Notes by version: a rebalance timeout from 1 (before, the session timeout). From 4 on a new dynamic
member gets an id (79) and joins again with it. Static members from 5; the protocol type from 7; a
reason from 8; from 9 on the reply may tell a static leader to skip the assignment.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_members import client_of, milliseconds
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.groups.requests import JoinReply, JoinRequest
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_FIRST_VERSION_WITH_REBALANCE_TIME: Final = 1
_FIRST_VERSION_WITH_KNOWN_IDS: Final = 4
_FIRST_VERSION_WITH_PROTOCOL_TYPE: Final = 7
_FIRST_VERSION_WITH_SKIPPING: Final = 9


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Answered when all members have joined, or the rebalance timeout is over."""
    if not request.group_id:
        reply = JoinReply(error=Code.INVALID_GROUP_ID, member_id=request.member_id)
    else:
        try:
            reply = await services.groups.join(request.group_id, _read(request, context))
        except KafkaError as error:
            reply = JoinReply(error=error.code, member_id=request.member_id)
    return _show(reply, context.version)


def _read(request: Any, context: RequestContext) -> JoinRequest:
    version = context.version
    session = milliseconds(request.session_timeout)
    rebalance = session
    if version >= _FIRST_VERSION_WITH_REBALANCE_TIME:
        rebalance = milliseconds(request.rebalance_timeout)
    instance_id = optional_field(request, "group_instance_id", default=None)
    return JoinRequest(
        client=client_of(context),
        member_id=request.member_id,
        instance_id=instance_id,
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        reason=optional_field(request, "reason", default=None),
        requires_known_member_id=version >= _FIRST_VERSION_WITH_KNOWN_IDS
        and instance_id is None
        and not request.member_id,
        supports_skipping_assignment=version >= _FIRST_VERSION_WITH_SKIPPING,
    )


def _show(reply: JoinReply, version: int) -> Values:
    name = reply.protocol_name or None
    if version < _FIRST_VERSION_WITH_PROTOCOL_TYPE:
        name = name or ""  # the field became nullable together with the protocol type
    return {
        "error_code": reply.error,
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": name,
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata,
            }
            for member in reply.members
        ],
    }


API = Api(
    ApiKey.JOIN_GROUP,
    "JoinGroup",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
