"""AlterConfigs, versions 0-2.

Behaviour: replaces all configurations that are set on a topic, a group, this broker or (with an
empty name) all brokers. ``validate_only`` checks and changes nothing.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_CONFIG (40): unknown name or illegal value of a topic
or group; INVALID_REQUEST (42): the same of a broker, a configuration that needs a restart, another
broker's id, a null value, a resource or name given twice, or a type of resource that is not served.

Left out: loggers, as in Kafka, and client metrics.
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
