"""InitProducerId, versions 0-5.

Behaviour: an idempotent producer gets an id that was never given before, with epoch 0, whether
or not it names the one that it had, as Kafka does. A producer id without an epoch or the
reverse gets 42. A transactional id gets 42: transactions are not served yet, and this code
makes clients fail at once with a message instead of retrying.

Left out: version 6, which Kafka marks unstable; transactions.
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.wire.api_versions import ApiKey

_INVALID_REQUEST: Final = 42


async def handle(services: Services, request: Any, call: Call) -> Values:
    """A fresh id."""
    producer_id = getattr(request, "producer_id", -1)
    epoch = getattr(request, "producer_epoch", -1)
    if request.transactional_id is not None or (producer_id == -1) != (epoch == -1):
        return {"error_code": _INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": await services.producer_ids.allocate(), "producer_epoch": 0}


API = Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", handle=handle)
