"""Heartbeat, versions 0-4.

Behaviour: keeps a member of a classic group alive. The reply says whether the group rebalances
(27).

Codes: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); ILLEGAL_GENERATION (22);
INVALID_GROUP_ID (24): no group id; UNKNOWN_MEMBER_ID (25); REBALANCE_IN_PROGRESS (27);
FENCED_INSTANCE_ID (82).

Notes by version: static members from 3.

Left out: nothing.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.groups.requests import HeartbeatRequest
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """The error code of the group or of the coordinator."""
    if not request.group_id:
        return {"error_code": Code.INVALID_GROUP_ID}
    heartbeat = HeartbeatRequest(
        member_id=request.member_id,
        instance_id=optional_field(request, "group_instance_id", default=None),
        generation=request.generation_id,
    )
    return {"error_code": await services.groups.heartbeat(request.group_id, heartbeat)}


API = Api(
    ApiKey.HEARTBEAT,
    "Heartbeat",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
