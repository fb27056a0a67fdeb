"""DescribeAcls, versions 1-3.

Behaviour: a cluster without an authorizer has no access control lists, and says so as Kafka does.
Codes: 54 always.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey

NO_AUTHORIZER: Final[Values] = {
    "error_code": 54,
    "error_message": "No Authorizer is configured.",
}
"""SECURITY_DISABLED in Kafka's words."""


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    return {**NO_AUTHORIZER, "resources": ()}


API = Api(
    ApiKey.DESCRIBE_ACLS,
    "DescribeAcls",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
