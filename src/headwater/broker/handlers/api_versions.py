"""ApiVersions, versions 0-4.

Behaviour: the ranges of ``headwater.wire.api_versions``. A version that is not served is
answered with error 35 and the ranges in a version 0 body, so that a newer client can ask
again with a version that both know. From version 3 on the client's software name and version
must be made of letters, digits, dots and dashes (error 42).

Notes: of Kafka's features only ``group.version`` is there. Clients read ``transaction.version``
too and use the oldest protocol where it is missing, which is what is served. Up to version 3 a
feature's least level is given as 1, because clients of that time take 0 for a fault.

Left out: nothing else.
"""

import re
from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.wire.api_versions import ADVERTISED, ApiKey

_UNSUPPORTED_VERSION: Final = 35
_INVALID_REQUEST: Final = 42
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def handle(services: Services, request: Any, call: Call) -> Values:
    """``request`` is None where its version is not served."""
    if request is None:
        return {"error_code": _UNSUPPORTED_VERSION, "api_keys": _RANGES}
    if call.version >= _FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": _INVALID_REQUEST}
    least = 0 if call.version >= _FIRST_VERSION_WITH_LEVEL_0 else 1
    return {
        "api_keys": _RANGES,
        "supported_features": [
            {"name": name, "min_version": least, "max_version": level}
            for name, level in _FEATURES.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in _FEATURES.items()
        ],
    }


_FEATURES: Final = {"group.version": 1}
"""Kafka's own features that are served, each at its one level."""

_RANGES: Final = [
    {"api_key": int(key), "min_version": versions.lowest, "max_version": versions.highest}
    for key, versions in ADVERTISED.items()
]

API = Api(ApiKey.API_VERSIONS, "ApiVersions", handle=handle)
