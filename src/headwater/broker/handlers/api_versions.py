"""ApiVersions, versions 0-4.

Behaviour: the ranges of ``headwater.wire.messages.api_versions``. A version that is not served is
answered with error 35 and the ranges in a version 0 body, so that a newer client can ask
again with a version that both know. From version 3 on the client's software name and version
must be made of letters, digits, dots and dashes (error 42).

Notes: of Kafka's features only ``group.version`` is there; ``headwater.version`` is the cluster's
own feature level, which ``headwater cluster finalize`` and UpdateFeatures raise. Clients read
``transaction.version`` too and use the oldest protocol where it is missing, which is what is
served. Up to version 3 a feature's least level is given as 1, because clients of that time take 0
for a fault.

Left out: nothing else.
"""

import re
from typing import Any, Final

from headwater.broker.cluster.features import FIXED, LEVEL, SUPPORTED
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.messages.api_versions import ADVERTISED, ApiKey

_UNSUPPORTED_VERSION: Final = 35
_INVALID_REQUEST: Final = 42
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """``request`` is None where its version is not served."""
    if request is None:
        return {"error_code": _UNSUPPORTED_VERSION, "api_keys": _RANGES}
    if context.version >= _FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": _INVALID_REQUEST}
    least = 0 if context.version >= _FIRST_VERSION_WITH_LEVEL_0 else 1
    level = services.cluster.feature_level
    return {
        "api_keys": _RANGES,
        "supported_features": [
            {
                "name": name,
                "min_version": max(levels.lowest, least),
                "max_version": levels.highest,
            }
            for name, levels in SUPPORTED.items()
        ],
        "finalized_features_epoch": level,
        "finalized_features": [
            {"name": name, "min_version_level": at, "max_version_level": at}
            for name, at in (*FIXED.items(), (LEVEL, level))
        ],
    }


_RANGES: Final = [
    {"api_key": int(key), "min_version": versions.lowest, "max_version": versions.highest}
    for key, versions in ADVERTISED.items()
]

API = Api(ApiKey.API_VERSIONS, "ApiVersions", handle=handle)
