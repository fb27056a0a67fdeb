"""ListGroups, versions 0-5.

Behaviour: the groups that this broker coordinates; a client that wants all asks every broker.
Code: 15 where the metadata store does not answer.

Notes by version: states, and a filter by them, from 4; types (``classic``, ``consumer``), and
a filter, from 5. Filters do not look at case; one that names nothing known lists nothing.

Left out: share and streams groups.
"""

from typing import Any

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """An empty filter lets everything through. Who may describe the cluster sees all groups."""
    states = {state.lower() for state in getattr(request, "states_filter", ())}
    kinds = {kind.lower() for kind in getattr(request, "types_filter", ())}
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
            if (sees_all or _is_shown(services, context, one.group))
            and (not states or one.state.lower() in states)
            and (not kinds or one.kind.lower() in kinds)
        ]
    }


def _is_shown(services: Services, context: RequestContext, group: str) -> bool:
    return services.authorizer.allows(context.session, Operation.DESCRIBE, Resource.GROUP, group)


API = Api(
    ApiKey.LIST_GROUPS,
    "ListGroups",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
