"""AlterConfigs, versions 0-2.

Behaviour: replaces everything that is set on a topic by what the request gives. Codes: 3
unknown topic, 40 an unknown name or an illegal value, 42 a null value, a resource or name given
twice, or a resource that is no topic. ``validate_only`` checks and changes nothing.

Left out: brokers and loggers.
"""

from collections.abc import Mapping
from typing import Any

from headwater.broker.config_changes import alter_resources
from headwater.broker.dispatch import Api
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.engine import ConfigChange
from headwater.errors import InvalidRequest
from headwater.topic_configs import check_configs
from headwater.wire.api_versions import ApiKey


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One result for each resource."""
    return {"responses": await alter_resources(services, request, _replacement)}


def _replacement(resource: Any) -> ConfigChange:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {','.join(nulls)}")
    configs = {config.name: config.value for config in resource.configs}
    check_configs(configs)

    def change(_present: Mapping[str, str]) -> Mapping[str, str]:
        return configs

    return change


API = Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", handle=handle)
