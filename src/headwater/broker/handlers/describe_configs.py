"""DescribeConfigs, versions 1-4.

Behaviour: a topic's configurations, all or those named, with where each value comes from; for
this broker's id its settings by Kafka's names, all read-only; for an empty broker name, which
stands for the cluster's dynamic defaults, none, as there are none. Names that are not known
are left out, as Kafka does. Codes: 3 unknown topic, 17 illegal name, 42 another broker's id or
a kind of resource that is not served.

Notes by version: types and documentation from 3 on, the latter only when asked for.

Left out: broker loggers, client metrics and groups.
"""

from collections.abc import Iterable
from typing import Any, Final

from headwater.broker.broker_configs import broker_entries
from headwater.broker.config_entries import ConfigEntry, topic_entries
from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.broker.topic_creation import find_or_create
from headwater.errors import InvalidRequest, KafkaError
from headwater.wire.api_versions import ApiKey

_TOPIC: Final = 2
_BROKER: Final = 4


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One result for each resource."""
    results = []
    documented = getattr(request, "include_documentation", False)
    for resource in request.resources:
        result: Values = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "configs": (),
        }
        try:
            entries = await _entries(services, resource)
            result["configs"] = [
                _show(entry, request.include_synonyms, documented) for entry in entries
            ]
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": str(error)}
        results.append(result)
    return {"results": results}


async def _entries(services: Services, resource: Any) -> Iterable[ConfigEntry]:
    names = resource.configuration_keys or None
    if resource.resource_type == _TOPIC:
        topic = await find_or_create(services, resource.resource_name, create=False)
        return topic_entries(topic.configs, names)
    if resource.resource_type == _BROKER:
        if not resource.resource_name:
            return ()
        node_id = services.cluster.node_id
        if resource.resource_name != str(node_id):
            raise InvalidRequest(
                f"Unexpected broker id, expected {node_id} or empty string, but received "
                f"{resource.resource_name}"
            )
        return broker_entries(services, names)
    raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")


def _show(entry: ConfigEntry, synonyms: bool, documented: bool) -> Values:  # noqa: FBT001
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": int(entry.source),
        "synonyms": [
            {"name": one.name, "value": one.value, "source": int(one.source)}
            for one in (entry.synonyms if synonyms else ())
        ],
        "config_type": int(entry.type),
        "documentation": entry.doc if documented else None,
    }


API = Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", handle=handle)
