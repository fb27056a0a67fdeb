"""ListTransactions, versions 0-2.

Behaviour: transactions are not served, so the list is empty; filters are checked. The reply names
states that Kafka does not have.

Codes: INVALID_REGULAR_EXPRESSION (128): a pattern that RE2 refuses, or that is longer than a
consumer group's pattern may be.

Notes by version: a minimum duration from 1; a pattern for transactional ids from 2.

Left out: transactions.
"""

import asyncio
from typing import Any, Final

from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.groups.consumer.patterns import pattern_fault
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_STATES: Final = frozenset(
    {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "PrepareEpochFence", "Dead",
    }
)  # fmt: skip


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """No transactions, and the unknown states of the filter."""
    pattern = optional_field(request, "transactional_id_pattern", default=None)
    if pattern and await asyncio.to_thread(pattern_fault, pattern) is not None:
        return {"error_code": Code.INVALID_REGULAR_EXPRESSION}
    return {
        "unknown_state_filters": [
            state for state in dict.fromkeys(request.state_filters) if state not in _STATES
        ],
        "transaction_states": (),
    }


API = Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", handle=handle)
