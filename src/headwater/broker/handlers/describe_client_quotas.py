"""DescribeClientQuotas, versions 0-1.

Behaviour: the entities with quotas that match every component of the filter: a name, the default of
a kind, or any name of a kind. A strict filter matches only entities without further parts.

Codes: UNSUPPORTED_VERSION (35): a kind of entity that Kafka does not have; INVALID_REQUEST (42): a
contradictory filter.

Left out: nothing.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.quotas.entities import entity_rows, entity_text
from headwater.broker.quotas.filters import filter_of
from headwater.broker.services import RequestContext, Services
from headwater.errors import InvalidRequest, UnsupportedVersion
from headwater.wire.messages.api_versions import ApiKey


def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Every entity that matches, with its limits."""
    try:
        wanted = filter_of(request.components, strict=request.strict)
    except (InvalidRequest, UnsupportedVersion) as error:
        return {"error_code": error.code, "error_message": str(error), "entries": None}
    quotas = services.dynamic.stored_quotas.all
    return {
        "entries": [
            {
                "entity": entity_rows(entity),
                "values": [{"key": key, "value": value} for key, value in sorted(limits.items())],
            }
            for entity, limits in sorted(quotas.items(), key=lambda item: entity_text(item[0]))
            if wanted.matches(entity)
        ]
    }


API = Api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    "DescribeClientQuotas",
    handle=handle,
    operation=Operation.DESCRIBE_CONFIGS,
    resource=Resource.CLUSTER,
)
