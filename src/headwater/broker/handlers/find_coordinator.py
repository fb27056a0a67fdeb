"""FindCoordinator, versions 0-6.

Behaviour: for a group or a transactional id, the broker that holds the lease of its shard. If no
broker holds it, the reply names the rendezvous choice among all live brokers. The client's zone has
no influence.

Codes: COORDINATOR_NOT_AVAILABLE (15): that broker is not registered, or has no listener with the
name of the client's listener; clients retry; INVALID_REQUEST (42): an unknown type of key.

Notes by version: only groups in 0; one key up to 3, several from 4.

Left out: share groups (42); transactions: InitProducerId refuses them.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource, require
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.coordination.leases import CoordinatorLookup
from headwater.errors import KafkaError
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import TURN_ELEMENTS, in_turns

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_VERSION_WITH_KEYS: Final = 4


def handle(services: Services, request: Any, context: RequestContext) -> Values | Awaitable[Values]:
    """Answers from memory; yields to the event loop if the request has many keys."""
    kind = optional_field(request, "key_type", default=_GROUP)
    if context.version >= _FIRST_VERSION_WITH_KEYS:
        if len(request.coordinator_keys) > TURN_ELEMENTS:
            return _find_many(services, kind, request.coordinator_keys, context)
        found = [_find(services, kind, key, context) for key in request.coordinator_keys]
        return {"coordinators": found}
    return _find(services, kind, request.key, context)


async def _find_many(
    services: Services, kind: int, keys: Sequence[str], context: RequestContext
) -> Values:
    found = [_find(services, kind, key, context) async for key in in_turns(keys)]
    return {"coordinators": found}


def _lookup(services: Services, kind: int) -> CoordinatorLookup | None:
    """The lookup for a type of key; None if the type is not served."""
    if kind == _GROUP:
        return services.groups
    if kind == _TRANSACTION:
        # InitProducerId refuses transactions, so any broker may answer for a transactional id.
        return services.groups
    return None


def _find(services: Services, kind: int, key: str, context: RequestContext) -> Values:
    lookup = _lookup(services, kind)
    if lookup is None:
        return _refusal(key, Code.INVALID_REQUEST, f"coordinators of type {kind} are not served")
    resource = Resource.GROUP if kind == _GROUP else Resource.TRANSACTIONAL_ID
    try:
        require(services.authorizer, context.session, Operation.DESCRIBE, resource, key)
    except KafkaError as error:
        return _refusal(key, error.code, str(error))
    broker_id = lookup.coordinator(key)
    registered = services.cluster.find(broker_id)
    broker = None if registered is None else registered.at(context.session.listener)
    if broker is not None:
        return {"key": key, "node_id": broker_id, "host": broker.host, "port": broker.port}
    return _refusal(
        key,
        Code.COORDINATOR_NOT_AVAILABLE,
        f"broker {broker_id}, the coordinator, is not registered or lacks the client's listener",
    )


def _refusal(key: str, code: int, message: str) -> Values:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": code,
        "error_message": message,
    }


API = Api(
    ApiKey.FIND_COORDINATOR,
    "FindCoordinator",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
