"""What AlterConfigs and IncrementalAlterConfigs share: finding a resource, applying a change."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.broker.replies import Values
from headwater.broker.services import Services
from headwater.broker.topic_creation import find_or_create
from headwater.engine import ConfigChange
from headwater.errors import InvalidRequest, KafkaError
from headwater.topic_configs import check_configs

_TOPIC: Final = 2
_BROKER: Final = 4


async def alter_resources(
    services: Services, request: Any, change_of: Callable[[Any], ConfigChange]
) -> list[Values]:
    """Apply ``change_of(resource)`` to each topic; one result for each resource."""
    times = Counter((r.resource_type, r.resource_name) for r in request.resources)
    results = []
    for resource in request.resources:
        result: Values = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            check_resource(resource.resource_type)
            check_keys(resource.configs)
            topic = await find_or_create(services, resource.resource_name, create=False)
            change = change_of(resource)
            check_configs(change(topic.configs))
            if not request.validate_only:
                await services.engine.topics.change_configs(topic.name, change)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": str(error)}
        results.append(result)
    return results


def check_resource(resource_type: int) -> None:
    """Raises ``InvalidRequest`` for anything but a topic."""
    if resource_type == _BROKER:
        raise InvalidRequest("broker settings are read at start: change its config file")
    if resource_type != _TOPIC:
        raise InvalidRequest(f"Unsupported resource type: {resource_type}")


def check_keys(configs: Sequence[Any]) -> None:
    """Raises ``InvalidRequest`` where a name is given twice."""
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
