"""DescribeClientQuotas, versions 0-1.

Behaviour: the entities that have quotas and match every component of the filter, by an exact
name, as the default of their kind, or by having one at all; a strict filter wants no other
part. Codes: 42 a filter that contradicts itself, 35 a kind of entity that Kafka does not know.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.quotas.entities import entity_text
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
                "entity": [
                    {"entity_type": kind, "entity_name": name}
                    for kind, name in sorted(entity, key=lambda part: part[0])
                ],
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
