"""DeleteAcls, versions 1-3.

Behaviour: refused, as in Kafka without an authorizer.

Codes: SECURITY_DISABLED (54): for each filter.

Left out: access control lists.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.handlers.describe_acls import NO_AUTHORIZER
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    return {"filter_results": [{**NO_AUTHORIZER, "matching_acls": ()} for _ in request.filters]}


API = Api(
    ApiKey.DELETE_ACLS,
    "DeleteAcls",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
