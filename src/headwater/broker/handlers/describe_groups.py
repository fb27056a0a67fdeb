"""DescribeGroups, versions 0-6.

Behaviour: state, protocol and members of classic groups. A group that does not exist, or has
another type, is described as ``Dead``. A group that is named twice is described once.

Codes of each group: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); GROUP_ID_NOT_FOUND (69):
no such group.

Notes by version: authorized operations, on request, from 3; static members from 4; 69 with a
message from 6.

Left out: nothing.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource, allowed_operations
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.groups.requests import ClassicDescription
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import gather_in_turns

_FIRST_VERSION_WITH_NOT_FOUND: Final = 6


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One description for each group, in the order of the request."""
    operations = optional_field(request, "include_authorized_operations", default=False)

    async def describe(group: str) -> Values:
        found = await _describe(services, context, group)
        return _show(services, context, group, found, operations=operations)

    return {"groups": await gather_in_turns(list(dict.fromkeys(request.groups)), describe)}


async def _describe(services: Services, context: RequestContext, group: str) -> ClassicDescription:
    try:
        API.require(services, context, group)
        return await services.groups.describe_classic(group)
    except KafkaError as error:
        return ClassicDescription(error=error.code, message=str(error) or None, state="")


def _show(
    services: Services,
    context: RequestContext,
    group: str,
    found: ClassicDescription,
    *,
    operations: bool,
) -> Values:
    error = found.error
    if error == Code.GROUP_ID_NOT_FOUND and context.version < _FIRST_VERSION_WITH_NOT_FOUND:
        error = Code.NONE
    shown: Values = {
        "error_code": error,
        "error_message": found.message,
        "group_id": group,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol_name,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client.id,
                "client_host": member.client.host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in found.members
        ],
    }
    if operations and not error:
        shown["authorized_operations"] = allowed_operations(
            services.authorizer, context.session, Resource.GROUP, group
        )
    return shown


API = Api(
    ApiKey.DESCRIBE_GROUPS,
    "DescribeGroups",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
