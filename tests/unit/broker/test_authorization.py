"""Requests of a client without rights get Kafka's authorization errors."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import MISSING, fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema

from headwater.broker.apis import APIS
from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.client_session import ClientSession
from headwater.groups.requests import (
    ClientIdentity,
    ConsumerDescription,
    ConsumerMemberDescription,
    ListedGroup,
)
from headwater.wire.messages.api_versions import ADVERTISED, LOWEST_SERVED_PRODUCE, ApiKey
from headwater.wire.messages.schema import ENTITY, fields_of
from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.running import RunningBroker, batch, running_broker

Right = tuple[Operation, Resource, str]

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53


class Rights:
    """An authorizer that allows the given rights, for any principal."""

    def __init__(self, allowed: Callable[[Right], bool]) -> None:
        self._allowed = allowed

    def allows(
        self, _session: ClientSession, operation: Operation, resource: Resource, name: str
    ) -> bool:
        return self._allowed((operation, resource, name))

    def allows_any(self, session: ClientSession, operation: Operation, resource: Resource) -> bool:
        return self.allows(session, operation, resource, "any")


def nothing(_right: Right) -> bool:
    return False


def no_topic(right: Right) -> bool:
    return right[1] is not Resource.TOPIC


@asynccontextmanager
async def broker_with(allowed: Callable[[Right], bool]) -> AsyncIterator[RunningBroker]:
    """It has a topic ``t`` and a group ``g``."""
    groups = FakeGroups()
    groups.answers["list"] = [ListedGroup("g", "consumer", "Stable", "classic")]
    async with running_broker(groups=groups, authorizer=Rights(allowed)) as broker:
        await broker.create_topic("t")
        yield broker


PARTITION = {"partition_index": 0, "partition": 0, "timestamp": -1, "committed_offset": 1}
TOPICS = [{"name": "t", "topic": "t", "partitions": [PARTITION]}]
INDEXED = [{"name": "t", "topic": "t", "partitions": [0], "partition_indexes": [0]}]

REFUSED: dict[ApiKey, tuple[int | None, dict[str, Any]]] = {
    ApiKey.PRODUCE: (
        TOPIC,
        {
            "acks": -1,
            "topic_data": [{"name": "t", "partition_data": [{"records": batch(b"value")}]}],
        },
    ),
    ApiKey.FETCH: (TOPIC, {"session_epoch": -1, "max_bytes": 1000, "topics": TOPICS}),
    ApiKey.LIST_OFFSETS: (TOPIC, {"topics": TOPICS}),
    ApiKey.METADATA: (TOPIC, {"topics": [{"name": "t", "topic_id": None}]}),
    ApiKey.OFFSET_COMMIT: (GROUP, {"group_id": "g", "topics": TOPICS}),
    ApiKey.OFFSET_FETCH: (
        GROUP,
        {"group_id": "g", "topics": INDEXED, "groups": [{"group_id": "g", "topics": INDEXED}]},
    ),
    ApiKey.FIND_COORDINATOR: (GROUP, {"key": "g", "coordinator_keys": ["g"]}),
    ApiKey.JOIN_GROUP: (GROUP, {"group_id": "g"}),
    ApiKey.HEARTBEAT: (GROUP, {"group_id": "g"}),
    ApiKey.LEAVE_GROUP: (GROUP, {"group_id": "g"}),
    ApiKey.SYNC_GROUP: (GROUP, {"group_id": "g"}),
    ApiKey.DESCRIBE_GROUPS: (GROUP, {"groups": ["g"]}),
    ApiKey.LIST_GROUPS: (None, {}),
    ApiKey.API_VERSIONS: (None, {"client_software_name": "x", "client_software_version": "1"}),
    ApiKey.CREATE_TOPICS: (
        TOPIC, {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}]},
    ),
    ApiKey.DELETE_TOPICS: (TOPIC, {"topic_names": ["t"], "topics": [{"name": "t"}]}),
    ApiKey.DELETE_RECORDS: (TOPIC, {"topics": TOPICS}),
    ApiKey.INIT_PRODUCER_ID: (CLUSTER, {"producer_id": -1, "producer_epoch": -1}),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (TOPIC, {"topics": TOPICS}),
    ApiKey.DESCRIBE_ACLS: (CLUSTER, {}),
    ApiKey.CREATE_ACLS: (CLUSTER, {"creations": [{}]}),
    ApiKey.DELETE_ACLS: (CLUSTER, {"filters": [{}]}),
    ApiKey.DESCRIBE_CONFIGS: (TOPIC, {"resources": [{"resource_type": 2, "resource_name": "t"}]}),
    ApiKey.ALTER_CONFIGS: (TOPIC, {"resources": [{"resource_type": 2, "resource_name": "t"}]}),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (CLUSTER, {"dirs": [{"topics": INDEXED}]}),
    ApiKey.DESCRIBE_LOG_DIRS: (CLUSTER, {"topics": INDEXED}),
    ApiKey.CREATE_PARTITIONS: (TOPIC, {"topics": [{"name": "t", "count": 2}]}),
    ApiKey.DELETE_GROUPS: (GROUP, {"groups_names": ["g"]}),
    ApiKey.ELECT_LEADERS: (CLUSTER, {"topic_partitions": INDEXED}),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        TOPIC, {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (CLUSTER, {"topics": TOPICS}),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (CLUSTER, {}),
    ApiKey.OFFSET_DELETE: (GROUP, {"group_id": "g", "topics": TOPICS}),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (CLUSTER, {}),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        CLUSTER, {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}]}]},
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (CLUSTER, {}),
    ApiKey.UPDATE_FEATURES: (
        CLUSTER, {"feature_updates": [{"feature": "group.version", "max_version_level": 1}]},
    ),
    ApiKey.DESCRIBE_CLUSTER: (None, {"endpoint_type": 1}),
    ApiKey.DESCRIBE_PRODUCERS: (TOPIC, {"topics": INDEXED}),
    ApiKey.DESCRIBE_TRANSACTIONS: (TRANSACTIONAL_ID, {"transactional_ids": ["x"]}),
    ApiKey.LIST_TRANSACTIONS: (None, {}),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (GROUP, {"group_id": "g"}),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (GROUP, {"group_ids": ["g"]}),
    ApiKey.LIST_CONFIG_RESOURCES: (CLUSTER, {}),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        TOPIC, {"topics": [{"name": "t"}], "response_partition_limit": 1},
    ),
}  # fmt: skip
"""What a client without any right gets from each API; None: no error, but nothing to see."""


def test_the_table_has_every_api() -> None:
    assert {int(key) for key in REFUSED} == set(APIS) == {int(key) for key in ADVERTISED}


def complete(schema: Any, values: dict[str, Any], topic_id: UUID) -> dict[str, Any]:
    """The fields of ``values`` that a version has, and the smallest value for every other field."""
    whole: dict[str, Any] = {}
    for field in fields_of(schema):
        if field.name == "topic_id" and "topic_id" not in values:
            by_name = any(each.name == "name" for each in fields_of(schema))
            whole["topic_id"] = None if by_name else topic_id
        elif field.name in values:
            given = values[field.name]
            if field.type == ENTITY and given is not None:
                given = (
                    [complete(field.entity, each, topic_id) for each in given]
                    if field.is_array
                    else complete(field.entity, given, topic_id)
                )
            whole[field.name] = given
        elif field.default is not MISSING:
            continue
        elif field.nullable or field.type == "uuid":
            whole[field.name] = None
        elif field.is_array:
            whole[field.name] = []
        elif field.type == "string":
            whole[field.name] = ""
        elif field.type == "bytes":
            whole[field.name] = b""
        elif field.type == "bool":
            whole[field.name] = False
        else:
            whole[field.name] = 0
    return whole


def codes(reply: Any) -> Iterator[int]:
    """Every error code in a reply but "none"."""
    if isinstance(reply, tuple | list):
        for each in reply:
            yield from codes(each)
    elif is_dataclass(reply):
        for field in fields(reply):
            value = getattr(reply, field.name)
            if field.name == "error_code" and value:
                yield int(value)
            yield from codes(value)


async def ask(broker: RunningBroker, key: ApiKey, version: int, /, **values: Any) -> Any:
    topic = broker.engine.topics.get("t")
    assert topic is not None
    schema = load_request_schema(key, version)
    return await broker.call(key, version, **complete(schema, values, topic.id))


async def test_a_client_without_rights_is_refused_by_every_version_of_every_api() -> None:
    wrong = []
    async with broker_with(nothing) as broker:
        for key, (code, values) in REFUSED.items():
            lowest, highest = ADVERTISED[key]
            lowest = LOWEST_SERVED_PRODUCE if key == ApiKey.PRODUCE else lowest
            for version in range(lowest, highest + 1):
                reply = await ask(broker, key, version, **values)
                found = set(codes(reply))
                if found != (set() if code is None else {code}):
                    wrong.append((key.name, version, found))
        assert broker.engine.topics.get("new") is None
    assert not wrong


async def test_a_client_with_all_rights_is_refused_by_no_api() -> None:
    async with broker_with(lambda _right: True) as broker:
        for key, (_, values) in REFUSED.items():
            if broker.engine.topics.get("t") is None:  # DeleteTopics may
                await broker.create_topic("t")
            reply = await ask(broker, key, ADVERTISED[key].highest, **values)
            assert not {TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID} & set(codes(reply)), key.name


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ],
)
async def test_a_right_on_a_group_is_no_right_on_its_topics(key: ApiKey) -> None:
    async with broker_with(no_topic) as broker:
        values = {**REFUSED[key][1], "subscribed_topic_names": ["t"]}
        reply = await ask(broker, key, ADVERTISED[key].highest, **values)
        assert set(codes(reply)) == {TOPIC}


@pytest.mark.parametrize(
    "key", [ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS]
)
@pytest.mark.parametrize(("kind", "code"), [(2, TOPIC), (4, CLUSTER), (8, CLUSTER), (32, GROUP)])
async def test_configurations_need_a_right_on_their_resource(
    key: int, kind: int, code: int
) -> None:
    async with broker_with(nothing) as broker:
        resource = {"resource_type": kind, "resource_name": "1"}
        reply = await ask(
            broker, ApiKey(key), ADVERTISED[ApiKey(key)].highest, resources=[resource]
        )
        assert set(codes(reply)) == {code}


async def test_lists_leave_out_what_a_client_may_not_describe() -> None:
    async with broker_with(nothing) as broker:
        assert (await ask(broker, ApiKey.METADATA, 9, topics=None)).topics == ()
        described = await ask(
            broker, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, response_partition_limit=9
        )
        assert described.topics == ()
        assert (await ask(broker, ApiKey.LIST_GROUPS, 4)).groups == ()
        cluster = await ask(
            broker, ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=1,
            include_cluster_authorized_operations=True,
        )  # fmt: skip
        assert cluster.cluster_authorized_operations == 0
    async with broker_with(lambda _right: True) as broker:
        assert len((await ask(broker, ApiKey.METADATA, 9, topics=None)).topics) == 1
        assert len((await ask(broker, ApiKey.LIST_GROUPS, 4)).groups) == 1


async def test_a_client_without_a_right_does_not_learn_whether_a_topic_exists() -> None:
    async with broker_with(nothing) as broker:
        for name in ("t", "absent"):
            reply = await ask(broker, ApiKey.METADATA, 9, topics=[{"name": name}])
            assert set(codes(reply)) == {TOPIC}
        deleted = await ask(
            broker, ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": known(broker)}]
        )
        (response,) = deleted.responses
        assert (response.error_code, response.name) == (TOPIC, None)


def known(broker: RunningBroker) -> UUID:
    topic = broker.engine.topics.get("t")
    assert topic is not None
    return topic.id


async def test_a_topic_is_created_for_metadata_only_if_the_client_may_create_it() -> None:
    def describe(right: Right) -> bool:
        return right[0] is Operation.DESCRIBE

    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    async with broker_with(describe) as broker:
        assert set(codes(await ask(broker, ApiKey.METADATA, 9, **asked))) == {TOPIC}
    async with broker_with(lambda right: describe(right) or right[1] is Resource.CLUSTER) as broker:
        assert not set(codes(await ask(broker, ApiKey.METADATA, 9, **asked)))


async def test_authorized_operations_are_the_allowed_ones() -> None:
    def some(right: Right) -> bool:
        return right[0] in (Operation.DESCRIBE, Operation.READ)

    async with broker_with(some) as broker:
        reply = await ask(
            broker, ApiKey.METADATA, 9, topics=[{"name": "t"}],
            include_topic_authorized_operations=True, include_cluster_authorized_operations=True,
        )  # fmt: skip
        assert reply.topics[0].topic_authorized_operations == 1 << 3 | 1 << 8
        assert reply.cluster_authorized_operations == 1 << 8


async def test_a_client_that_may_write_to_any_topic_gets_a_producer_id() -> None:
    def write(right: Right) -> bool:
        return right[:2] == (Operation.WRITE, Resource.TOPIC)

    async with broker_with(write) as broker:
        values = REFUSED[ApiKey.INIT_PRODUCER_ID][1]
        assert (await ask(broker, ApiKey.INIT_PRODUCER_ID, 4, **values)).error_code == 0
        refused = await ask(broker, ApiKey.INIT_PRODUCER_ID, 4, **values, transactional_id="x")
        assert refused.error_code == TRANSACTIONAL_ID


async def test_a_transactional_id_needs_a_right_of_its_own() -> None:
    async with broker_with(lambda right: right[1] is Resource.TOPIC) as broker:
        values = {**REFUSED[ApiKey.PRODUCE][1], "transactional_id": "x"}
        assert set(codes(await ask(broker, ApiKey.PRODUCE, 9, **values))) == {TRANSACTIONAL_ID}
        reply = await ask(broker, ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["x"])
        assert set(codes(reply)) == {TRANSACTIONAL_ID}


async def test_configurations_of_a_new_topic_are_shown_to_those_who_may_describe_them() -> None:
    def create(right: Right) -> bool:
        return right[0] is Operation.CREATE

    async with broker_with(create) as broker:
        reply = await ask(broker, ApiKey.CREATE_TOPICS, 7, **REFUSED[ApiKey.CREATE_TOPICS][1])
        (topic,) = reply.topics
        assert (topic.error_code, topic.topic_config_error_code) == (0, TOPIC)
        assert (topic.num_partitions, topic.configs) == (-1, ())


async def test_a_group_is_described_to_clients_that_may_describe_its_members_topics() -> None:
    async with broker_with(no_topic) as broker:
        member = ConsumerMemberDescription(
            member_id="m", instance_id=None, rack_id=None, epoch=1, topic_names=("t",),
            client=ClientIdentity("app", "/127.0.0.1"), topic_regex="", member_type=1,
            assigned={known(broker): (0,)}, target={},
        )  # fmt: skip
        groups = broker.services.groups
        assert isinstance(groups, FakeGroups)
        groups.answers["describe_consumer"] = ConsumerDescription(state="Stable", members=(member,))
        reply = await ask(broker, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"])
        assert (set(codes(reply)), reply.groups[0].members) == ({TOPIC}, ())
