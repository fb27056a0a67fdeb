"""CreateTopics, versions 2-7.

Behaviour: each topic is checked and created independently. -1 means the cluster's default number of
partitions and replication factor. Any replication factor from 1 is accepted, so that code which was
written for a larger cluster works. It is stored as ``headwater.replication.factor`` and has no
other effect: the object store replicates, and each partition shows one replica. Manual assignments
are checked as in Kafka and have no effect either. ``validate_only`` checks and creates nothing.

Codes: INVALID_TOPIC_EXCEPTION (17): illegal or colliding name; TOPIC_ALREADY_EXISTS (36);
INVALID_PARTITIONS (37); INVALID_REPLICATION_FACTOR (38): 0 or below -1;
INVALID_REPLICA_ASSIGNMENT (39); INVALID_CONFIG (40); INVALID_REQUEST (42): a name twice in one
request, or an assignment beside a number; POLICY_VIOLATION (44): more partitions than one request
may create; THROTTLING_QUOTA_EXCEEDED (89): over the client's quota.

Notes by version: from 5 on the reply has the topic's configurations, from 7 on its id. 89 from 6
on; a client with an older version is served and then throttled.

Left out: the request's time-out.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from headwater.broker.authorizer import Operation
from headwater.broker.configs.entries import BrokerLayers, topic_entries
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.quotas.enforcement import MutationQuota
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.creation import check_may_create
from headwater.broker.topics.names import Collisions, check_topic_name
from headwater.broker.topics.replica_assignment import check_brokers
from headwater.broker.topics.table_names import TableNames
from headwater.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
)
from headwater.topic_config.topic import TOPIC_CONFIGS, check_configs
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import MAX_PARTITIONS_PER_REQUEST, in_turns

_STRICT: Final = 6
"""From this version on a client over its quota is refused (89); before, it is throttled."""
_REPLICATION_FACTOR: Final = "headwater.replication.factor"
_HIDDEN_CONFIGS: Final[Values] = {
    "num_partitions": -1,
    "replication_factor": -1,
    "configs": (),
    "topic_config_error_code": TopicAuthorizationFailed.code,
}
"""The fields of a new topic if the client may not describe its configurations."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each topic, in order."""
    quota = services.dynamic.quotas.mutations(context.client_id, strict=context.version >= _STRICT)
    times = Counter(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    collisions = Collisions(services.engine.topics.stored_names)
    tables = TableNames(services)
    budget = MAX_PARTITIONS_PER_REQUEST
    results = []
    async for name, asked in in_turns(by_name.items()):
        try:
            if times[name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            check_may_create(services, context.session, name)
            partitions = check_size(services, asked)
            budget -= partitions
            if budget < 0:
                raise _too_many(partitions)
            result = await _create(
                services, asked, partitions, quota, collisions, tables, request.validate_only
            )
            if not services.topics.allows(context.session, name, Operation.DESCRIBE_CONFIGS):
                result |= _HIDDEN_CONFIGS
        except KafkaError as error:
            result = {"name": name, "error_code": error.code, "error_message": str(error)}
        results.append(result)
    return {"topics": results, "throttle_time": quota.throttle_ms}


async def _create(
    services: Services,
    asked: Any,
    partitions: int,
    quota: MutationQuota,
    collisions: Collisions,
    tables: TableNames,
    validate_only: bool,  # noqa: FBT001
) -> Values:
    topics = services.engine.topics
    check_topic_name(asked.name)
    if topics.get(asked.name) is not None:
        raise TopicAlreadyExists(f"Topic '{asked.name}' already exists.")
    await collisions.check(asked.name)
    configs = _configs(asked)
    await tables.check(asked.name, configs)
    quota.take(partitions)
    layers = services.dynamic.brokers.layers
    result: Values = {
        "name": asked.name,
        "num_partitions": partitions,
        "replication_factor": int(configs.get(_REPLICATION_FACTOR, "1")),
        "configs": LazyRows(len(TOPIC_CONFIGS), partial(_shown_configs, configs, layers)),
    }
    if not validate_only:
        created = await topics.create(asked.name, partitions, configs)
        collisions.created(asked.name)
        result["topic_id"] = created.id
    return result


def _shown_configs(configs: Mapping[str, str], layers: BrokerLayers) -> Iterator[Values]:
    for entry in topic_entries(configs, layers):
        yield {
            "name": entry.name,
            "value": entry.value,
            "read_only": entry.read_only,
            "config_source": int(entry.source),
            "is_sensitive": False,
        }


def _configs(asked: Any) -> dict[str, str]:
    nulls = [config.name for config in asked.configs if config.value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {config.name: config.value for config in asked.configs}
    if asked.replication_factor > 1:
        configs.setdefault(_REPLICATION_FACTOR, str(asked.replication_factor))
    check_configs(configs)
    return configs


def check_size(services: Services, asked: Any) -> int:
    """The number of partitions of a new topic. Raises the error of an illegal request."""
    if asked.assignments:
        return _check_assignments(services, asked)
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        raise InvalidReplicationFactor(
            "Replication factor must be larger than 0, or -1 to use the default value."
        )
    if asked.num_partitions < -1 or asked.num_partitions == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    return int(
        services.settings.num_partitions if asked.num_partitions == -1 else asked.num_partitions
    )


def _too_many(partitions: int) -> PolicyViolation:
    return PolicyViolation(
        f"Unable to perform excessively large batch operation: {partitions} partitions"
    )


def _check_assignments(services: Services, asked: Any) -> int:
    if asked.replication_factor != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but replication factor was not set to -1."
        )
    if asked.num_partitions != -1:
        raise InvalidRequest(
            "A manual partition assignment was specified, but numPartitions was not set to -1."
        )
    if len(asked.assignments) > MAX_PARTITIONS_PER_REQUEST:
        raise _too_many(len(asked.assignments))
    seen: set[int] = set()
    factor: int | None = None
    for assignment in asked.assignments:
        if assignment.partition_index in seen:
            raise InvalidReplicaAssignment(
                "Found multiple manual partition assignments for partition "
                f"{assignment.partition_index}"
            )
        seen.add(assignment.partition_index)
        factor = check_brokers(services.cluster, assignment.broker_ids, factor)
    if seen != set(range(len(seen))):
        raise InvalidReplicaAssignment(
            "partitions should be a consecutive 0-based integer sequence"
        )
    return len(seen)


API = Api(ApiKey.CREATE_TOPICS, "CreateTopics", handle=handle)
