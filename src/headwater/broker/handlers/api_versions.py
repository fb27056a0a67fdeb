"""ApiVersions, versions 0-4.

Behaviour: lists the ranges of ``headwater.wire.messages.api_versions``. An unsupported version is
answered with code 35 and the ranges in a body of version 0, so that the client can retry with a
version that both support. Of Kafka's features only ``group.version`` is listed.
``headwater.version`` is the cluster's feature level, which ``headwater cluster finalize`` and
UpdateFeatures raise. Without ``transaction.version`` clients use the oldest transaction protocol.

Notes by version: from 3 on the client's software name and version must consist of letters, digits,
dots and dashes (42). Up to 3 a feature's lowest level is listed as at least 1, because clients of
that time reject 0.

Left out: nothing.
"""

import re
from typing import Any, Final

from headwater.broker.cluster.features import FIXED, LEVEL, SUPPORTED
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ADVERTISED, ApiKey

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE: Final = 3
_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """``request`` is None if its version is not served."""
    if request is None:
        return {"error_code": Code.UNSUPPORTED_VERSION, "api_keys": _RANGES}
    if context.version >= _FIRST_VERSION_WITH_SOFTWARE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return {"error_code": Code.INVALID_REQUEST}
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
