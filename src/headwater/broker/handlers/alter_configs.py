"""AlterConfigs, versions 0-2.

Behaviour: replaces everything that is set on a topic, a group, this broker or (with an empty
name) all brokers by what the request gives. Codes: 3 unknown topic, 40 a topic's or group's
unknown name or illegal value, 42 the same of a broker, what only a restart changes, another
broker's id, a null value, a resource or name given twice, or a kind of resource that is not
served. ``validate_only`` checks and changes nothing.

Left out: loggers, which Kafka leaves out here too, and client metrics.
"""

from collections.abc import Mapping
from typing import Any

from headwater.broker.configs.changes import ConfigRules, alter_resources
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.engine import ConfigChange
from headwater.errors import InvalidRequest
from headwater.wire.messages.api_versions import ApiKey


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each resource."""
    return {"responses": await alter_resources(services, request, context, _replacement)}


def _replacement(resource: Any, rules: ConfigRules) -> ConfigChange:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {','.join(nulls)}")
    configs = {config.name: config.value for config in resource.configs}
    rules.check(configs)

    def change(_present: Mapping[str, str]) -> Mapping[str, str]:
        return configs

    return change


API = Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", handle=handle)
