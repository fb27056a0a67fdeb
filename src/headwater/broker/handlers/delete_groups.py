"""DeleteGroups, versions 0-2.

Behaviour: deletes groups without members, with their offsets. A group that is named twice is
answered once.

Codes of each group: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); NON_EMPTY_GROUP (68): it
has members; GROUP_ID_NOT_FOUND (69): it does not exist.

Left out: nothing.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import gather_in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Groups are deleted concurrently, so that they share metadata transactions."""

    async def delete(group: str) -> Values:
        try:
            API.require(services, context, group)
            code = await services.groups.delete(group)
        except KafkaError as error:
            code = error.code
        return {"group_id": group, "error_code": code}

    return {"results": await gather_in_turns(list(dict.fromkeys(request.groups_names)), delete)}


API = Api(
    ApiKey.DELETE_GROUPS,
    "DeleteGroups",
    handle=handle,
    operation=Operation.DELETE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
