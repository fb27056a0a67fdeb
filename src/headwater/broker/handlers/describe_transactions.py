"""DescribeTransactions, version 0.

Behaviour: there are no transactions yet, so every transactional id is unknown (105). An empty
one is refused with 42.
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import LateRows, Values
from headwater.broker.services import Call, Services
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code

_TRANSACTIONAL_ID_NOT_FOUND: Final = 105


def handle(services: Services, request: Any, call: Call) -> Values:
    """One code for each id."""
    return {
        "transaction_states": LateRows(
            len(request.transactional_ids), lambda: map(_unknown, request.transactional_ids)
        )
    }


def _unknown(name: str) -> Values:
    return {
        "transactional_id": name,
        "error_code": _TRANSACTIONAL_ID_NOT_FOUND if name else Code.INVALID_REQUEST,
        "transaction_start_time": 0,
        "transaction_timeout": 0,
        "topics": (),
    }


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", handle=handle)
