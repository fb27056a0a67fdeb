"""ListPartitionReassignments, version 0.

Behaviour: an empty list, because a reassignment is complete at once (AlterPartitionReassignments).

Left out: the request's time-out.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """An empty list."""
    return {"topics": ()}


API = Api(
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    "ListPartitionReassignments",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
