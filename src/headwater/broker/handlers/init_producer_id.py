"""InitProducerId, versions 0-5.

Behaviour: an idempotent producer gets a new id with epoch 0, even if it names its old id, as in
Kafka.

Codes: INVALID_REQUEST (42): a producer id without an epoch or an epoch without an id, or a
transactional id: with this code clients fail at once and do not retry.

Notes by version: the present id and epoch from 3.

Left out: transactions; version 6, which Kafka marks unstable.
"""

from typing import Any

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource, require
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """A new producer id."""
    _check_may_produce(services, context, request.transactional_id)
    producer_id = optional_field(request, "producer_id", default=-1)
    epoch = optional_field(request, "producer_epoch", default=-1)
    if request.transactional_id is not None or (producer_id == -1) != (epoch == -1):
        return {"error_code": Code.INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": await services.producer_ids.allocate(), "producer_epoch": 0}


def _check_may_produce(
    services: Services, context: RequestContext, transactional_id: str | None
) -> None:
    """A client that may write to any topic may have a producer id."""
    authorizer, session = services.authorizer, context.session
    if transactional_id is not None:
        resource = Resource.TRANSACTIONAL_ID
        require(authorizer, session, Operation.WRITE, resource, transactional_id)
    elif not authorizer.allows_any(session, Operation.WRITE, Resource.TOPIC):
        API.require(services, context, CLUSTER_NAME)


API = Api(
    ApiKey.INIT_PRODUCER_ID,
    "InitProducerId",
    handle=handle,
    operation=Operation.IDEMPOTENT_WRITE,
    resource=Resource.CLUSTER,
    checked_by_handler=True,
)
