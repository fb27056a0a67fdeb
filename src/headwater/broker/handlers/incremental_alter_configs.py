"""IncrementalAlterConfigs, versions 0-1.

Behaviour: changes a topic's configurations one by one: SET, DELETE (back to the default),
APPEND and SUBTRACT (lists only, over the default where nothing is set). Codes: 3 unknown
topic, 40 an unknown name, an illegal value or a list operation on something else, 42 a null
value, an unknown operation, a resource or name given twice, or a resource that is no topic.
``validate_only`` checks and changes nothing.

Left out: brokers, loggers, client metrics and groups.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.broker.config_changes import alter_resources
from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.engine import ConfigChange
from headwater.errors import InvalidConfig, InvalidRequest
from headwater.topic_configs import TOPIC_CONFIGS, ConfigType, check_configs, list_value, text
from headwater.wire.api_versions import ApiKey

_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3
_NAMES: Final = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One result for each resource."""
    return {"responses": await alter_resources(services, request, _change_of)}


def _change_of(resource: Any) -> ConfigChange:
    def change(present: Mapping[str, str]) -> Mapping[str, str]:
        configs = dict(present)
        for one in resource.configs:
            apply_operation(configs, one.name, one.config_operation, one.value)
        check_configs(configs)
        return configs

    return change


def apply_operation(configs: dict[str, str], name: str, operation: int, value: str | None) -> None:
    """Change ``configs`` in place. Raises ``InvalidConfig`` or ``InvalidRequest``."""
    if operation == _DELETE:
        configs.pop(name, None)
        return
    if value is None:
        raise InvalidRequest(f"Null value not supported for : {name}")
    if operation == _SET:
        configs[name] = value
        return
    if operation not in _NAMES:
        raise InvalidRequest(f"Unknown operation type {operation}")
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    if config.type is not ConfigType.LIST:
        raise InvalidConfig(
            f"Can't {_NAMES[operation]} to key {name} because its type is not LIST."
        )
    items, given = list_value(text(configs, name)), list_value(value)
    if operation == _APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    configs[name] = ",".join(items)


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", handle=handle)
