"""DescribeTransactions, version 0.

Behaviour: transactions are not served, so every transactional id is unknown.

Codes: INVALID_REQUEST (42): an empty transactional id; TRANSACTIONAL_ID_NOT_FOUND (105): any other.

Left out: transactions.
"""

from functools import partial
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One code for each id."""
    ids = request.transactional_ids
    show = partial(_unknown, services, context)
    return {"transaction_states": LazyRows(len(ids), lambda: map(show, ids))}


def _unknown(services: Services, context: RequestContext, name: str) -> Values:
    code: int = Code.TRANSACTIONAL_ID_NOT_FOUND if name else Code.INVALID_REQUEST
    try:
        API.require(services, context, name)
    except KafkaError as error:
        code = error.code
    return {
        "transactional_id": name,
        "error_code": code,
        "transaction_start_time": 0,
        "transaction_timeout": 0,
        "topics": (),
    }


API = Api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    "DescribeTransactions",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.TRANSACTIONAL_ID,
    checked_by_handler=True,
)
