"""JoinGroup, versions 0-9.

Behaviour: a member of a classic group joins and waits until all members have, or the group's
rebalance time is over. The request holds up those behind it on its own connection, as with
Kafka, and no other connection. Codes: -1 (the member or the group would be too large), 14, 15, 16,
22, 23, 24 (no group id, or more than 512 bytes), 25, 26 (session time), 79, 81, 82.

Notes by version: a rebalance time of its own from 1; static members from 5; from 4 on a dynamic
member is first given an id (79) and joins again with it; protocol type from 7; a reason from 8;
from 9 on the leader of static members may be told to leave the assignment as it is.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_members import client_of, milliseconds
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
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
    """Answered when the group has gathered."""
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
    instance_id = getattr(request, "group_instance_id", None)
    return JoinRequest(
        client=client_of(context),
        member_id=request.member_id,
        instance_id=instance_id,
        session_timeout_ms=session,
        rebalance_timeout_ms=rebalance,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        reason=getattr(request, "reason", None),
        requires_known_member_id=version >= _FIRST_VERSION_WITH_KNOWN_IDS
        and instance_id is None
        and not request.member_id,
        supports_skipping_assignment=version >= _FIRST_VERSION_WITH_SKIPPING,
    )


def _show(reply: JoinReply, version: int) -> Values:
    name = reply.protocol_name or None
    if version < _FIRST_VERSION_WITH_PROTOCOL_TYPE:
        name = name or ""  # null came with the protocol type
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
