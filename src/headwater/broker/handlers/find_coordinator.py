"""FindCoordinator, versions 0-6.

Behaviour: for a group, the live broker that rendezvous hashing gives to its name, whatever the
client's zone. For a transactional id, error 42 with a message, because transactions are not
served yet: clients report that at once, where "not available" would make them retry for ever.

Notes by version: one key up to 3, several from 4 on. A group's client learns from ApiVersions
that JoinGroup is not served, and says so; consumers without a group never come here.

Left out: share groups (42).
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.wire.api_versions import ApiKey

_GROUP: Final = 0
_TRANSACTION: Final = 1
_INVALID_REQUEST: Final = 42
_FIRST_VERSION_WITH_KEYS: Final = 4


def handle(services: Services, request: Any, call: Call) -> Values:
    """Answered from memory."""
    kind = getattr(request, "key_type", _GROUP)
    if call.version >= _FIRST_VERSION_WITH_KEYS:
        return {"coordinators": [_find(services, kind, key) for key in request.coordinator_keys]}
    return _find(services, kind, request.key)


def _find(services: Services, kind: int, key: str) -> Values:
    if kind == _GROUP:
        broker = services.cluster.coordinator(key)
        return {"key": key, "node_id": broker.id, "host": broker.host, "port": broker.port}
    what = "transactions are" if kind == _TRANSACTION else f"coordinators of type {kind} are"
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": _INVALID_REQUEST,
        "error_message": f"{what} not supported by this broker yet",
    }


API = Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", handle=handle)
