"""DescribeConfigs, versions 1-4.

Behaviour: a topic's or group's configurations, all or those named, with where each value comes
from; for this broker's id its settings by Kafka's names; for an empty broker name what is set
for all brokers; the levels of this broker's loggers. Names that are not known are left out, as
Kafka does. Codes: 3 unknown topic, 17 illegal name, 42 another broker's id, an empty group or a
kind of resource that is not served.

Notes by version: types and documentation from 3 on, the latter only when asked for.

Left out: client metrics.
"""

from collections.abc import Iterable
from typing import Any

from headwater.broker.broker_configs import broker_entries, cluster_entries
from headwater.broker.config_changes import ResourceType, check_broker_id
from headwater.broker.config_entries import ConfigEntry, group_entries, topic_entries
from headwater.broker.config_loggers import logger_entries
from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.broker.topic_creation import find_or_create
from headwater.errors import InvalidRequest, KafkaError
from headwater.wire.api_versions import ApiKey


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
    name, dynamic = resource.resource_name, services.dynamic
    match resource.resource_type:
        case ResourceType.TOPIC:
            topic = await find_or_create(services, name, create=False)
            return topic_entries(topic.configs, dynamic.brokers.layers, names)
        case ResourceType.BROKER:
            if not name:
                return cluster_entries(services, names)
            own = f"{services.cluster.node_id} or empty string"
            check_broker_id(services, name, "Broker id must be an integer", own)
            return broker_entries(services, names)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise InvalidRequest("Broker id must not be empty")
            check_broker_id(services, name, "Broker id must be an integer")
            return logger_entries(names)
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            return group_entries(dynamic.groups.of(name), services.group_settings, names)
        case unknown:
            raise InvalidRequest(f"Unsupported resource type: {unknown}")


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
