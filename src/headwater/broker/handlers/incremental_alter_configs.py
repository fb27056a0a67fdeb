"""IncrementalAlterConfigs, versions 0-1.

Behaviour: changes configurations of a topic, a group, this broker or (with an empty name) all
brokers: SET, DELETE (back to the default), and for lists APPEND and SUBTRACT, which start from the
default if nothing is set. It also sets and deletes the levels of this broker's loggers, which are
lost when the broker stops. ``validate_only`` checks and changes nothing.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_CONFIG (40): unknown name or illegal value of a
topic, group or logger, or a list operation on another type; INVALID_REQUEST (42): the same of a
broker, a configuration that needs a restart, another broker's id, a null value, an unknown
operation, a resource or name given twice, or a type of resource that is not served.

Left out: client metrics.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from headwater.broker.configs.changes import ConfigRules, alter_resources
from headwater.broker.configs.loggers import check_level, set_level
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.engine import ConfigChange
from headwater.errors import InvalidRequest
from headwater.topic_config.values import list_value
from headwater.wire.messages.api_versions import ApiKey

_OPERATIONS: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each resource."""
    levels = partial(_alter_levels, validate_only=request.validate_only)
    return {"responses": await alter_resources(services, request, context, _change_of, levels)}


def _change_of(resource: Any, rules: ConfigRules) -> ConfigChange:
    def change(present: Mapping[str, str]) -> Mapping[str, str]:
        configs = dict(present)
        for one in resource.configs:
            _apply(configs, rules, one)
        rules.check(configs)
        return configs

    return change


def _apply(configs: dict[str, str], rules: ConfigRules, one: Any) -> None:
    operation = _operation(one)
    if operation == "DELETE":
        configs.pop(one.name, None)
        return
    if one.value is None:
        raise InvalidRequest(f"Null value not supported for : {one.name}")
    if operation == "SET":
        configs[one.name] = one.value
        return
    items = list_value(rules.list_value(configs, one.name, operation))
    given = list_value(one.value)
    if operation == "APPEND":
        present = frozenset(items)  # a list may have thousands of items
        items += [item for item in given if item not in present]
    else:
        removed = frozenset(given)
        items = [item for item in items if item not in removed]
    configs[one.name] = ",".join(items)


def _operation(one: Any) -> str:
    if not 0 <= one.config_operation < len(_OPERATIONS):
        raise InvalidRequest(f"Unknown operations type {one.config_operation}")
    return _OPERATIONS[one.config_operation]


def _alter_levels(resource: Any, *, validate_only: bool) -> None:
    """Set all levels, or none if one change is illegal."""
    changes = [(one.name, one.value, _operation(one)) for one in resource.configs]
    for name, level, operation in changes:
        check_level(name, level, operation)
    for name, level, operation in () if validate_only else changes:
        set_level(name, None if operation == "DELETE" else level)


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", handle=handle)
