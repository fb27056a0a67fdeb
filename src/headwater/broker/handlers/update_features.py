"""UpdateFeatures, versions 0-2.

Behaviour: raises ``headwater.version``, the cluster's feature level (``headwater cluster
finalize``), to a level that every live broker supports. ``group.version`` has one level. All
updates of a request are applied, or none.

Codes: INVALID_UPDATE_VERSION (95): another feature, a lower level, or a level that a broker does
not support.

Notes by version: ``validate_only`` and the type of upgrade from 1; results for each feature up to
1.

Left out: downgrades.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.cluster.features import FIXED, LEVEL
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import ConfigurationError
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey

_LAST_VERSION_WITH_RESULTS: Final = 1


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """All updates are checked before the level is raised."""
    dry_run = optional_field(request, "validate_only", default=False)
    levels = {one.feature: one.max_version_level for one in request.feature_updates}
    for name, level in levels.items():
        if name != LEVEL and FIXED.get(name) != level:
            return _refuse(f"Invalid update version {level} for feature {name}.")
    if LEVEL in levels:
        try:
            await services.cluster.finalize(levels[LEVEL], dry_run=dry_run)
        except ConfigurationError as error:
            return _refuse(str(error))
    results = [{"feature": name, "error_code": Code.NONE, "error_message": None} for name in levels]
    return {"results": results} if context.version <= _LAST_VERSION_WITH_RESULTS else {}


def _refuse(message: str) -> Values:
    return {"error_code": Code.INVALID_UPDATE_VERSION, "error_message": message, "results": ()}


API = Api(
    ApiKey.UPDATE_FEATURES,
    "UpdateFeatures",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
