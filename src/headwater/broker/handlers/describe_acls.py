"""DescribeAcls, versions 1-3.

Behaviour: refused, as in Kafka without an authorizer.

Codes: SECURITY_DISABLED (54): always.

Left out: access control lists.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

NO_AUTHORIZER: Final[Values] = {
    "error_code": Code.SECURITY_DISABLED,
    "error_message": "No Authorizer is configured.",
}
"""The result of every ACL request, with Kafka's message."""


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    return {**NO_AUTHORIZER, "resources": ()}


API = Api(
    ApiKey.DESCRIBE_ACLS,
    "DescribeAcls",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
