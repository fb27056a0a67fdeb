"""LeaveGroup, versions 0-5.

Behaviour: members leave a classic or consumer group at once.

Codes: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); INVALID_GROUP_ID (24): no group id; of
each member UNKNOWN_MEMBER_ID (25) and FENCED_INSTANCE_ID (82).

Notes by version: one member up to 2, whose error is at the top level. From 3 on several members, by
member id or instance id, each with its own error. A reason from 5.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.groups.requests import LeavingMember
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import TURN_ELEMENTS, yield_turn

_FIRST_VERSION_WITH_MEMBERS: Final = 3


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Answered when the members have left."""
    if not request.group_id:
        return {"error_code": Code.INVALID_GROUP_ID}
    if context.version < _FIRST_VERSION_WITH_MEMBERS:
        reply = await services.groups.leave(
            request.group_id, [LeavingMember(request.member_id, None)]
        )
        return {"error_code": reply.error or sum(error for _, _, error in reply.members)}
    left: list[Values] = []
    for start in range(0, max(1, len(request.members)), TURN_ELEMENTS):
        if start:
            await yield_turn()
        part = [
            LeavingMember(
                one.member_id, one.group_instance_id, optional_field(one, "reason", default=None)
            )
            for one in request.members[start : start + TURN_ELEMENTS]
        ]
        reply = await services.groups.leave(request.group_id, part)
        if reply.error:
            return {"error_code": reply.error, "members": ()}
        left += [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": error}
            for member_id, instance_id, error in reply.members
        ]
    return {"error_code": Code.NONE, "members": left}


API = Api(
    ApiKey.LEAVE_GROUP,
    "LeaveGroup",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
