"""ListGroups, versions 0-5.

Behaviour: the groups that this broker coordinates; a client asks every broker to list all groups.
Filters ignore case; an unknown state or type matches nothing.

Code: COORDINATOR_NOT_AVAILABLE (15): the metadata store does not answer.

Notes by version: states, and a filter by state, from 4; types (``classic``, ``consumer``), and a
filter by type, from 5.

Left out: share and streams groups.
"""

from collections.abc import Sequence
from typing import Any

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """An empty filter matches every group. A client that may describe the cluster sees all groups.
    Other clients see only the groups that they may describe.
    """
    states = _filter(request, "states_filter")
    kinds = _filter(request, "types_filter")
    sees_all = services.authorizer.allows(
        context.session, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME
    )
    return {
        "groups": [
            {
                "group_id": one.group,
                "protocol_type": one.protocol_type,
                "group_state": one.state,
                "group_type": one.kind,
            }
            async for one in in_turns(await services.groups.list())
            if (sees_all or _may_describe(services, context, one.group))
            and (not states or one.state.lower() in states)
            and (not kinds or one.kind.lower() in kinds)
        ]
    }


def _filter(request: Any, name: str) -> set[str]:
    values: Sequence[str] = optional_field(request, name, default=())
    return {value.lower() for value in values}


def _may_describe(services: Services, context: RequestContext, group: str) -> bool:
    return services.authorizer.allows(context.session, Operation.DESCRIBE, Resource.GROUP, group)


API = Api(
    ApiKey.LIST_GROUPS,
    "ListGroups",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
