"""DescribeConfigs, versions 1-4.

Behaviour: the configurations of topics, groups, this broker (by its id), all brokers (by an empty
name) and this broker's loggers: all of them, or the named ones. Each value has its source. Unknown
names are left out, as in Kafka.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_TOPIC_EXCEPTION (17): illegal topic name;
INVALID_REQUEST (42): another broker's id, an empty group id, or a type of resource that is not
served; POLICY_VIOLATION (44): more configurations than one request may describe.

Notes by version: types and documentation from 3; documentation only on request.

Left out: client metrics.
"""

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from headwater.broker.authorizer import Operation
from headwater.broker.configs.broker_entries import broker_entries, cluster_entries
from headwater.broker.configs.changes import ResourceType, check_broker_id, check_may_use
from headwater.broker.configs.entries import ConfigEntry, group_entries, topic_entries
from headwater.broker.configs.loggers import logger_entries
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.errors import InvalidRequest, KafkaError, PolicyViolation
from headwater.groups.configs import GROUP_CONFIGS
from headwater.topic_config.topic import TOPIC_CONFIGS
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import MAX_DESCRIBED_CONFIGS, in_turns

_RESOURCES_PER_TURN: Final = 100
"""Fewer than other elements, because a broker's dozens of configurations are sorted each time."""

Names = frozenset[str] | None
"""The requested configurations; None means all."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each resource; a resource that is named twice is described once."""
    synonyms = request.include_synonyms
    documented = optional_field(request, "include_documentation", default=False)
    show = partial(_show, synonyms=synonyms, documented=documented)
    weight = 1 + synonyms + 3 * documented
    described: dict[tuple[int, str, Names], Collection[Values]] = {}
    left = MAX_DESCRIBED_CONFIGS
    too_many = f"A request may describe at most {left // weight} configurations."
    results = []
    async for resource in in_turns(request.resources, elements=_RESOURCES_PER_TURN):
        kind, name = resource.resource_type, resource.resource_name
        names = frozenset(resource.configuration_keys) if resource.configuration_keys else None
        result: Values = {"resource_type": kind, "resource_name": name, "configs": ()}
        results.append(result)
        if left >= 0:
            try:
                check_may_use(services, context, resource, Operation.DESCRIBE_CONFIGS)
                rows = described.get((kind, name, names))
                if rows is None:
                    rows = await _rows(services, context, kind, name, names, show)
                    described[kind, name, names] = rows
            except KafkaError as error:
                result |= {"error_code": error.code, "error_message": str(error)}
                continue
            left -= len(rows) * weight
        if left >= 0:
            result["configs"] = rows
        else:
            result |= {"error_code": PolicyViolation.code, "error_message": too_many}
    return {"results": results}


async def _rows(
    services: Services,
    context: RequestContext,
    kind: int,
    name: str,
    names: Names,
    show: Callable[[ConfigEntry], Values],
) -> Collection[Values]:
    dynamic = services.dynamic
    match kind:
        case ResourceType.TOPIC:
            topic = await services.topics.find_named(
                context.session, name, Operation.DESCRIBE_CONFIGS
            )
            entries = partial(topic_entries, topic.configs, dynamic.brokers.layers, names)
            return _written_late(TOPIC_CONFIGS.keys(), names, entries, show)
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            entries = partial(
                group_entries, dynamic.groups.of(name), services.group_settings, names
            )
            return _written_late(GROUP_CONFIGS.keys(), names, entries, show)
        case _:
            return [show(entry) for entry in _of_this_broker(services, kind, name, names)]


def _of_this_broker(
    services: Services, kind: int, name: str, names: Names
) -> Iterable[ConfigEntry]:
    match kind:
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
        case unknown:
            raise InvalidRequest(f"Unsupported resource type: {unknown}")


def _written_late(
    known: AbstractSet[str],
    names: Names,
    entries: Callable[[], Iterable[ConfigEntry]],
    show: Callable[[ConfigEntry], Values],
) -> LazyRows:
    count = len(known) if names is None else len(known & names)
    return LazyRows(count, lambda: map(show, entries()))


def _show(entry: ConfigEntry, *, synonyms: bool, documented: bool) -> Values:
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
