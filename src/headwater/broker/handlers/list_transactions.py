"""ListTransactions, versions 0-2.

Behaviour: there are no transactions yet, so none is listed; filters are checked all the same.
A state that Kafka does not have is named in the answer. Codes: 128 a pattern that RE2, which
Kafka uses too, does not take, or that is larger than one of a consumer group may be.

Notes by version: a least duration from 1 on, a pattern for transactional ids from 2 on.
"""

import asyncio
from typing import Any, Final

from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.groups.consumer.patterns import fault_in
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_STATES: Final = frozenset(
    {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "PrepareEpochFence", "Dead",
    }
)  # fmt: skip


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """No transactions, and which filters made no sense."""
    pattern = getattr(request, "transactional_id_pattern", None)
    if pattern and await asyncio.to_thread(fault_in, pattern) is not None:
        return {"error_code": Code.INVALID_REGULAR_EXPRESSION}
    return {
        "unknown_state_filters": [
            state for state in dict.fromkeys(request.state_filters) if state not in _STATES
        ],
        "transaction_states": (),
    }


API = Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", handle=handle)
