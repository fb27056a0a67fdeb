"""What AlterConfigs and IncrementalAlterConfigs share: they find each resource and change it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource, require
from headwater.broker.configs.dynamic_configs import broker_list, check_broker_configs
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.table_names import TableNames
from headwater.engine import ConfigChange
from headwater.errors import InvalidConfig, InvalidRequest, KafkaError
from headwater.groups.configs import check_group_configs
from headwater.groups.settings import GroupSettings
from headwater.topic_config.topic import TOPIC_CONFIGS, ConfigType, check_configs, text
from headwater.topic_config.values import whole_number
from headwater.work_budget import in_turns

_RESOURCES_PER_TURN: Final = 100


class ResourceType(IntEnum):
    """Kafka's numbers for the types of resources with configurations."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """How the configurations of one type of resource are checked."""

    check: Callable[[Mapping[str, str]], None]
    """Raises Kafka's error for an unknown name or an illegal value."""
    list_value: Callable[[Mapping[str, str], str, str], str]
    """From the set configurations, a name and a list operation: the list before the operation.
    Raises Kafka's error if the configuration is not a list."""


ChangeOf = Callable[[Any, ConfigRules], ConfigChange]
"""From a request's resource to its change, which also checks the result."""


async def alter_resources(
    services: Services,
    request: Any,
    context: RequestContext,
    change_of: ChangeOf,
    alter_loggers: Callable[[Any], None] | None = None,
) -> list[Values]:
    """Apply ``change_of`` to each resource; one result for each resource."""
    times = Counter((r.resource_type, r.resource_name) for r in request.resources)
    tables, results = TableNames(services), []
    async for resource in in_turns(request.resources, elements=_RESOURCES_PER_TURN):
        result: Values = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            check_may_use(services, context, resource, Operation.ALTER_CONFIGS)
            check_keys(resource.configs)
            if resource.resource_type == ResourceType.BROKER_LOGGER and alter_loggers is not None:
                check_broker_id(services, resource.resource_name, "Node id must be an integer")
                alter_loggers(resource)
            else:
                await _alter(services, resource, context, change_of, tables, request.validate_only)
        except KafkaError as error:
            result |= {"error_code": error.code, "error_message": str(error)}
        results.append(result)
    changed_groups = any(one.resource_type == ResourceType.GROUP for one in request.resources)
    if changed_groups and not request.validate_only:
        await services.dynamic.groups.refresh()
    return results


async def _alter(
    services: Services,
    resource: Any,
    context: RequestContext,
    change_of: ChangeOf,
    tables: TableNames,
    validate_only: bool,  # noqa: FBT001
) -> None:
    name, dynamic = resource.resource_name, services.dynamic
    match resource.resource_type:
        case ResourceType.TOPIC:
            topic = await services.topics.find_named(context.session, name, Operation.ALTER_CONFIGS)
            change = change_of(resource, topic_rules(dynamic.brokers.topic_defaults))
            present = topic.configs
            await tables.check(name, change(present), present)
            apply: Callable[[ConfigChange], Awaitable[object]] = partial(
                services.engine.topics.change_configs, topic.name
            )
        case ResourceType.BROKER:
            if name:
                check_broker_id(services, name, "Node id must be an integer")
            change = change_of(resource, BROKER_RULES)
            layers = dynamic.brokers.layers
            present = layers.own if name else layers.cluster
            apply = partial(dynamic.brokers.change, whole_cluster=not name)
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Default group resources are not allowed.")
            change = change_of(resource, group_rules(services.group_settings))
            present = dynamic.groups.of(name)
            apply = partial(dynamic.groups.change, name, refresh=False)
        case unknown:
            raise InvalidRequest(f"Unknown resource type {unknown}")
    change(present)
    if not validate_only:
        await apply(change)


def check_may_use(
    services: Services, context: RequestContext, asked: Any, operation: Operation
) -> None:
    """Raises the authorization error unless the client may read or alter these configurations.

    ``TopicAccess`` checks topics. Unknown types of resources are refused later.
    """
    match asked.resource_type:
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            require(services.authorizer, context.session, operation, Resource.CLUSTER)
        case ResourceType.GROUP:
            name = asked.resource_name
            require(services.authorizer, context.session, operation, Resource.GROUP, name)


def check_keys(configs: Sequence[Any]) -> None:
    """Raises ``InvalidRequest`` if a name is given twice."""
    names = [config.name for config in configs]
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")


def check_broker_id(services: Services, name: str, what: str, expected: str | None = None) -> None:
    """Raises ``InvalidRequest`` unless the name is this broker's own id."""
    try:
        whole_number(name)
    except ValueError:
        raise InvalidRequest(f"{what}, but it is: {name}") from None
    own = services.cluster.node_id
    if name != str(own):  # "01" would be a different resource
        raise InvalidRequest(
            f"Unexpected broker id, expected {expected or own}, but received {name}"
        )


def topic_rules(defaults: Mapping[str, str]) -> ConfigRules:
    """``defaults`` are the cluster's configurations, for topics that do not set them."""

    def list_value(configs: Mapping[str, str], name: str, operation: str) -> str:
        config = TOPIC_CONFIGS.get(name)
        if config is None:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        if config.type is not ConfigType.LIST:
            raise _no_list(name, operation)
        return text({**defaults, **configs}, name)

    return ConfigRules(check_configs, list_value)


def group_rules(settings: GroupSettings) -> ConfigRules:
    def list_value(_configs: Mapping[str, str], name: str, operation: str) -> str:
        raise _no_list(name, operation)

    return ConfigRules(partial(check_group_configs, settings=settings), list_value)


BROKER_RULES = ConfigRules(check_broker_configs, broker_list)


def _no_list(name: str, operation: str) -> InvalidConfig:
    return InvalidConfig(f"Can't {operation} to key {name} because its type is not LIST.")
