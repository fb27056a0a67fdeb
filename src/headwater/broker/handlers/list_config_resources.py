"""ListConfigResources, versions 0-1.

Behaviour: the resources that DescribeConfigs can describe: all topics, the live brokers and their
loggers, and the groups with configurations. All types are listed, or the requested ones.

Codes: UNSUPPORTED_VERSION (35): a type of resource that Kafka does not list.

Notes by version: version 0 lists only client metrics, and there are none.

Left out: client metrics.
"""

from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.configs.changes import ResourceType
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Types in the order of the request; names are sorted within each type."""
    kinds = (
        (ResourceType.CLIENT_METRICS,)
        if context.version == 0
        else dict.fromkeys(request.resource_types) or tuple(ResourceType)
    )
    found = []
    for kind in kinds:
        if kind not in tuple(ResourceType):
            return {"error_code": Code.UNSUPPORTED_VERSION}
        found += [
            {"resource_type": int(kind), "resource_name": name}
            for name in await _names(services, kind)
        ]
    return {"config_resources": found}


async def _names(services: Services, kind: int) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return [topic.name for topic in await services.engine.topics.all()]
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker.id) for broker in services.cluster.brokers()]
        case ResourceType.GROUP:
            return list(services.dynamic.groups.groups())
        case _:
            return []


API = Api(
    ApiKey.LIST_CONFIG_RESOURCES,
    "ListConfigResources",
    handle=handle,
    operation=Operation.DESCRIBE_CONFIGS,
    resource=Resource.CLUSTER,
)
