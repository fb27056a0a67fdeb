"""InitProducerId, versions 0-5.

Behaviour: an idempotent producer gets an id that was never given before, with epoch 0, whether
or not it names the one that it had, as Kafka does. A producer id without an epoch or the
reverse gets 42. A transactional id gets 42: transactions are not served yet, and this code
makes clients fail at once with a message instead of retrying.

Left out: version 6, which Kafka marks unstable; transactions.
"""

from typing import Any, Final

from headwater.broker.authorizer import CLUSTER_NAME, Operation, Resource, require
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ApiKey

_INVALID_REQUEST: Final = 42


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """A fresh id."""
    _check_may_produce(services, context, request.transactional_id)
    producer_id = getattr(request, "producer_id", -1)
    epoch = getattr(request, "producer_epoch", -1)
    if request.transactional_id is not None or (producer_id == -1) != (epoch == -1):
        return {"error_code": _INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": await services.producer_ids.allocate(), "producer_epoch": 0}


def _check_may_produce(
    services: Services, context: RequestContext, transactional_id: str | None
) -> None:
    """Whoever may write to a topic may do so with a producer id."""
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
