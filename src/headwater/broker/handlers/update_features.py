"""UpdateFeatures, versions 0-2.

Behaviour: ``headwater.version`` is the cluster's feature level (``headwater cluster finalize``): it
goes up to what every live broker speaks, and never down (95). ``group.version`` stays at its one
level. Any other feature is not known (95). All updates of a request hold or none does.

Notes by version: a downgrade flag in 0, the kind of upgrade and ``validate_only`` from 1 on;
results for each feature up to 1.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.cluster.features import FIXED, LEVEL
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.errors import ConfigurationError
from headwater.wire.messages.api_versions import ApiKey

_INVALID_UPDATE_VERSION: Final = 95
_LAST_VERSION_WITH_RESULTS: Final = 1


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Check all, then raise the level."""
    dry_run = getattr(request, "validate_only", False)
    levels = {one.feature: one.max_version_level for one in request.feature_updates}
    for name, level in levels.items():
        if name != LEVEL and FIXED.get(name) != level:
            return _refuse(f"Invalid update version {level} for feature {name}.")
    if LEVEL in levels:
        try:
            await services.cluster.finalize(levels[LEVEL], dry_run=dry_run)
        except ConfigurationError as error:
            return _refuse(str(error))
    results = [{"feature": name, "error_code": 0, "error_message": None} for name in levels]
    return {"results": results} if context.version <= _LAST_VERSION_WITH_RESULTS else {}


def _refuse(message: str) -> Values:
    return {"error_code": _INVALID_UPDATE_VERSION, "error_message": message, "results": ()}


API = Api(
    ApiKey.UPDATE_FEATURES,
    "UpdateFeatures",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
