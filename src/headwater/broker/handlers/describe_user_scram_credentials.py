"""DescribeUserScramCredentials, version 0.

Behaviour: no user has credentials. Kafka's tools send this request when they list users' quotas.

Codes: RESOURCE_NOT_FOUND (91): a named user; DUPLICATE_RESOURCE (92): a user who is named twice.

Left out: SCRAM credentials.
"""

from collections import Counter
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each user that is named."""
    times = Counter(user.name for user in request.users or ())
    return {"results": LazyRows(len(times), lambda: (_result(*each) for each in times.items()))}


def _result(name: str, times: int) -> Values:
    if times > 1:
        code, what = (
            Code.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice",
        )
        message = f"{what} in a single request: {name}"
    else:
        code = Code.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    return {"user": name, "error_code": code, "error_message": message, "credential_infos": ()}


API = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    "DescribeUserScramCredentials",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.CLUSTER,
)
