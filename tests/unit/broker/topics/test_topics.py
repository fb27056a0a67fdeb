"""The APIs that create, delete, grow and describe topics, and describe the cluster."""

from typing import Any
from uuid import UUID

import pytest

from headwater.broker.settings import BrokerSettings
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import MAX_PARTITIONS_PER_REQUEST
from tests.support.broker.running import RunningBroker, running_broker

DEFAULTS: dict[str, Any] = {
    "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [],
}  # fmt: skip
ASSIGNED: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}


async def create(
    broker: RunningBroker, *topics: dict[str, Any], validate_only: bool = False
) -> Any:
    asked = [{**DEFAULTS, "name": "t", **topic} for topic in topics]
    response = await broker.call(
        ApiKey.CREATE_TOPICS, 7, topics=asked, timeout=1000, validate_only=validate_only
    )
    return response.topics


async def metadata(
    broker: RunningBroker, version: int, names: list[str] | None, **more: Any
) -> Any:
    topics = None if names is None else [{"name": name} for name in names]
    return await broker.call(ApiKey.METADATA, version, topics=topics, **more)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ({"name": ""}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "."}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": ".."}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "a b"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 250}, Code.INVALID_TOPIC_EXCEPTION),
        ({"name": "x" * 249}, Code.NONE),
        ({"name": "there"}, Code.TOPIC_ALREADY_EXISTS),
        ({"name": "a_b"}, Code.INVALID_TOPIC_EXCEPTION),
        ({"num_partitions": 0}, Code.INVALID_PARTITIONS),
        ({"num_partitions": -2}, Code.INVALID_PARTITIONS),
        ({"num_partitions": 2**31 - 1}, Code.POLICY_VIOLATION),
        ({"replication_factor": 0}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 3}, Code.NONE),
        ({"replication_factor": -1}, Code.NONE),
        ({"configs": [{"name": "nope", "value": "1"}]}, Code.INVALID_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": "x"}]}, Code.INVALID_CONFIG),
        ({"configs": [{"name": "retention.ms", "value": None}]}, Code.INVALID_CONFIG),
        ({"configs": [{"name": "remote.storage.enable", "value": "true"}]}, Code.INVALID_CONFIG),
        ({"configs": [{"name": "min.insync.replicas", "value": "2"}]}, Code.NONE),
        ({**ASSIGNED, "assignments": [{"partition_index": 0, "broker_ids": [1]}]}, Code.NONE),
        (
            {**ASSIGNED, "assignments": [{"partition_index": 1, "broker_ids": [1]}]},
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {**ASSIGNED, "assignments": [{"partition_index": 0, "broker_ids": [8]}]},
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            {**ASSIGNED, "assignments": [{"partition_index": 0, "broker_ids": []}]},
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        ({"assignments": [{"partition_index": 0, "broker_ids": [1]}]}, Code.INVALID_REQUEST),
    ],
)
async def test_topics_are_checked_as_kafka_does(
    broker: RunningBroker, topic: dict[str, Any], code: int
) -> None:
    await broker.create_topic("there")
    await broker.create_topic("a.b")
    (result,) = await create(broker, topic)
    assert result.error_code == code, result.error_message


async def test_the_reply_describes_a_created_topic(broker: RunningBroker) -> None:
    configs = [{"name": "retention.ms", "value": "5000"}]
    (result,) = await create(broker, {"num_partitions": 3, "configs": configs})
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert shown["retention.ms"] == ("5000", 1)
    assert shown["cleanup.policy"] == ("delete", 5)
    topic = await broker.engine.topics.find("t")
    assert (topic.id, len(topic.streams)) == (result.topic_id, 3)


async def test_any_replication_factor_is_kept_and_one_replica_shown(broker: RunningBroker) -> None:
    (result,) = await create(broker, {"num_partitions": 1, "replication_factor": 3})
    assert (result.error_code, result.replication_factor) == (Code.NONE, 3)
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert shown["headwater.replication.factor"] == ("3", 1)
    found = await metadata(broker, 7, ["t"], allow_auto_topic_creation=False)
    ((partition,),) = [topic.partitions for topic in found.topics]
    assert list(partition.replica_nodes) == [1]


async def test_name_given_twice_is_refused_and_the_others_created(broker: RunningBroker) -> None:
    results = await create(broker, {"name": "a"}, {"name": "a"}, {"name": "b"})
    assert {one.name: one.error_code for one in results} == {
        "a": Code.INVALID_REQUEST,
        "b": Code.NONE,
    }


async def test_validate_only_creates_nothing(broker: RunningBroker) -> None:
    (result,) = await create(broker, {}, validate_only=True)
    assert result.error_code == 0
    assert broker.engine.topics.get("t") is None


async def test_topics_are_deleted_by_name_and_by_id(broker: RunningBroker) -> None:
    first, _ = await broker.create_topic("a"), await broker.create_topic("b")
    asked = [
        (None, first),
        ("b", None),
        ("c", None),
        (None, UUID(int=9)),
        (None, None),
        ("d", first),
    ]
    response = await broker.call(
        ApiKey.DELETE_TOPICS,
        6,
        topics=[{"name": name, "topic_id": uuid} for name, uuid in asked],
        timeout=1000,
    )
    assert [one.error_code for one in response.responses] == [
        Code.NONE,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.INVALID_REQUEST,
        Code.INVALID_REQUEST,
    ]
    assert [one.name for one in response.responses][:2] == ["a", "b"]
    assert list(await broker.engine.topics.all()) == []


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, Code.INVALID_PARTITIONS),
        (1, None, Code.INVALID_PARTITIONS),
        (4, None, Code.NONE),
        (3, [{"broker_ids": [1]}], Code.NONE),
        (4, [{"broker_ids": [1]}], Code.INVALID_REPLICA_ASSIGNMENT),
        (3, [{"broker_ids": [9]}], Code.INVALID_REPLICA_ASSIGNMENT),
        (2**31 - 1, None, Code.POLICY_VIOLATION),
    ],
)
async def test_partitions_only_grow(
    broker: RunningBroker, count: int, assignments: Any, code: int
) -> None:
    await broker.create_topic("t", 2)
    asked = [{"name": "t", "count": count, "assignments": assignments}]
    response = await broker.call(
        ApiKey.CREATE_PARTITIONS, 3, topics=asked, timeout=1000, validate_only=False
    )
    assert response.results[0].error_code == code
    topic = await broker.engine.topics.find("t")
    assert len(topic.streams) == (2 if code else count)


async def test_no_topics_means_all_by_null_and_in_version_0_by_an_empty_list(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t")
    assert len((await metadata(broker, 0, [])).topics) == 1
    assert len((await metadata(broker, 1, [])).topics) == 0
    assert len((await metadata(broker, 1, None)).topics) == 1


async def test_missing_topics_are_created_if_request_and_setting_allow_it(
    broker: RunningBroker,
) -> None:
    refused = await metadata(broker, 4, ["t"], allow_auto_topic_creation=False)
    assert refused.topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    created = await metadata(
        broker, 4, ["t", "a b", "__consumer_offsets"], allow_auto_topic_creation=True
    )
    assert [topic.error_code for topic in created.topics] == [
        Code.NONE,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert created.topics[0].partitions[0].leader_id == 1
    async with running_broker(settings=BrokerSettings(auto_create_topics=False)) as strict:
        answer = await metadata(strict, 4, ["t"], allow_auto_topic_creation=True)
        assert answer.topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_topics_by_id_from_version_12(broker: RunningBroker) -> None:
    topic_id = await broker.create_topic("t")
    response = await broker.call(
        ApiKey.METADATA, 12,
        topics=[{"topic_id": topic_id, "name": None}, {"topic_id": UUID(int=7), "name": None}],
        allow_auto_topic_creation=True, include_topic_authorized_operations=True,
    )  # fmt: skip
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("t", Code.NONE),
        (None, Code.UNKNOWN_TOPIC_ID),
    ]
    assert response.topics[0].topic_authorized_operations == 3576


async def test_a_topic_id_takes_precedence_over_the_empty_name_from_java(
    broker: RunningBroker,
) -> None:
    topic_id = await broker.create_topic("t")
    response = await broker.call(
        ApiKey.METADATA,
        13,
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
        topics=[
            {"topic_id": topic_id, "name": ""},
            {"topic_id": UUID(int=7), "name": ""},
            {"topic_id": None, "name": "t"},
        ],
    )
    assert [(one.name, one.error_code) for one in response.topics] == [
        ("t", Code.NONE), (None, Code.UNKNOWN_TOPIC_ID), ("t", Code.NONE),
    ]  # fmt: skip


async def test_partitions_are_described_page_by_page(broker: RunningBroker) -> None:
    await broker.create_topic("a", 3)
    await broker.create_topic("b", 2)
    pages, cursor = [], None
    while True:
        response = await broker.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[],
            response_partition_limit=2,
            cursor=cursor,
        )
        pages.append([(t.name, p.partition_index) for t in response.topics for p in t.partitions])
        if response.next_cursor is None:
            break
        cursor = {
            "topic_name": response.next_cursor.topic_name,
            "partition_index": response.next_cursor.partition_index,
        }
    assert pages == [[("a", 0), ("a", 1)], [("a", 2), ("b", 0)], [("b", 1)]]


async def test_cluster_is_described(broker: RunningBroker) -> None:
    response = await broker.call(
        ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1
    )
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert response.cluster_authorized_operations == 8096
    assert [one.port for one in response.brokers] == [broker.port]
    for endpoint, code in ((2, 114), (9, 115)):
        refused = await broker.call(
            ApiKey.DESCRIBE_CLUSTER,
            1,
            include_cluster_authorized_operations=False,
            endpoint_type=endpoint,
        )
        assert refused.error_code == code


async def test_existing_names_are_looked_up_once_for_each_request(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = broker.engine.topics
    looked_up, stored_names = 0, topics.stored_names

    async def counted() -> Any:
        nonlocal looked_up
        looked_up += 1
        return await stored_names()

    monkeypatch.setattr(topics, "stored_names", counted)
    created = await create(broker, *({"name": f"a.{number}"} for number in range(20)))
    assert {one.error_code for one in created} == {Code.NONE}
    assert looked_up == 1
    asked = await metadata(
        broker, 8, ["b.1", "b_1", "a_3", "plain"], allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    assert {one.name: one.error_code for one in asked.topics} == {
        "b.1": Code.NONE,
        "b_1": Code.INVALID_TOPIC_EXCEPTION,
        "a_3": Code.INVALID_TOPIC_EXCEPTION,
        "plain": Code.NONE,
    }
    assert looked_up == 2


async def test_names_of_one_request_that_collide_are_not_both_created(
    broker: RunningBroker,
) -> None:
    created = await create(broker, {"name": "a.b"}, {"name": "a_b"})
    assert [one.error_code for one in created] == [Code.NONE, Code.INVALID_TOPIC_EXCEPTION]


async def test_one_metadata_request_creates_a_bounded_number_of_partitions() -> None:
    async with running_broker(settings=BrokerSettings(num_partitions=4_000)) as broker:
        asked = await metadata(
            broker, 8, ["a", "b", "c"], allow_auto_topic_creation=True,
            include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
        )  # fmt: skip
        assert [(one.name, one.error_code) for one in asked.topics] == [
            ("a", Code.NONE), ("b", Code.NONE), ("c", Code.LEADER_NOT_AVAILABLE)
        ]  # fmt: skip


async def test_one_request_adds_a_bounded_number_of_partitions(broker: RunningBroker) -> None:
    await create(broker, {"name": "a"}, {"name": "b"})
    asked = [{"name": name, "count": 6_000, "assignments": None} for name in ("a", "b")]
    response = await broker.call(
        ApiKey.CREATE_PARTITIONS, 3, topics=asked, timeout=1000, validate_only=True
    )
    assert [one.error_code for one in response.results] == [Code.NONE, Code.POLICY_VIOLATION]


async def test_too_many_assignments_are_refused_unread(
    broker: RunningBroker,
) -> None:
    """Without the bound they would get 39, because no broker has the id 9."""
    count = MAX_PARTITIONS_PER_REQUEST + 1
    numbered = [{"partition_index": n, "broker_ids": [9]} for n in range(count)]
    (created,) = await create(broker, {**ASSIGNED, "assignments": numbered}, validate_only=True)
    assert created.error_code == Code.POLICY_VIOLATION
    await create(broker, {})
    asked = {"name": "t", "count": 1 + count, "assignments": [{"broker_ids": [9]}] * count}
    raised = await broker.call(
        ApiKey.CREATE_PARTITIONS, 3, topics=[asked], timeout=1000, validate_only=True
    )
    assert raised.results[0].error_code == Code.POLICY_VIOLATION
