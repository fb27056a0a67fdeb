"""A request of about 1 MB may have 100,000 items: it does not delay other clients."""

import time
from typing import Any
from uuid import UUID

import pytest

from headwater.wire.messages.api_versions import ApiKey
from tests.system.hostile.frames import Repeat, large_frame
from tests.system.hostile.harness import Target, read_reply

TOPIC = "many-entries"


@pytest.fixture
async def topic(broker: Target) -> str:
    """A topic that exists."""
    metadata = {"topics": [{"name": TOPIC, "topic_id": None}], "allow_auto_topic_creation": True}
    await broker.call(ApiKey.METADATA, 12, **metadata, include_topic_authorized_operations=False)
    return TOPIC


def names(count: int, stem: str = "n") -> list[str]:
    return [f"{stem}{number}" for number in range(count)]


def partition(number: int, **more: Any) -> dict[str, Any]:
    return {"partition_index": number, **more}


def fetched(number: int) -> dict[str, Any]:
    return {"partition": number, "partition_max_bytes": 1_000, "current_leader_epoch": -1}


FETCH = {"max_wait": 200, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
NEW = {"num_partitions": 1, "replication_factor": 1}
DESCRIBED = {"include_synonyms": True, "include_documentation": True}
LIMIT = [{"key": "producer_byte_rate", "value": 1e9}]
SESSION = [{"name": "consumer.session.timeout.ms", "value": "45000"}]
USER = [{"entity_type": "user", "entity_name": "u"}]

REQUESTS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "Fetch of one partition": (
        1, 12, {**FETCH, "topics": [{"topic": TOPIC, "partitions": Repeat(fetched(0), 33_000)}]}
    ),
    "Fetch of one topic": (
        1, 12, {**FETCH, "topics": Repeat({"topic": TOPIC, "partitions": [fetched(0)]}, 25_000)}
    ),
    "Fetch of empty topics": (
        1, 12, {**FETCH, "topics": Repeat({"topic": TOPIC}, 120_000)}
    ),
    "Produce": (
        0, 11, {"acks": -1, "timeout": 1_000, "topic_data": [
            {"name": TOPIC, "partition_data": Repeat({"index": 0, "records": b""}, 19_000)}
        ]},
    ),
    "ListOffsets": (
        2, 7, {"topics": Repeat(
            {"name": TOPIC, "partitions": [partition(0, timestamp=-1)]}, 40_000
        )},
    ),
    "Metadata of names": (
        3, 12, {"topics": [{"name": name} for name in names(50_000)]}
    ),
    "Metadata of ids": (
        3, 12, {"topics": [{"topic_id": UUID(int=n + 1)} for n in range(50_000)]}
    ),
    "OffsetCommit of topics": (
        8, 8, {"group_id": "many", "generation_id_or_member_epoch": -1, "topics": Repeat(
            {"name": TOPIC, "partitions": [partition(0)]}, 40_000
        )},
    ),
    "OffsetCommit": (
        8, 8, {"group_id": "many", "generation_id_or_member_epoch": -1, "topics": [
            {"name": TOPIC, "partitions": Repeat(partition(0), 60_000)}
        ]},
    ),
    "OffsetFetch of groups": (
        9, 8, {"groups": [{"group_id": name, "topics": None} for name in names(100_000)]}
    ),
    "OffsetFetch of one group": (
        9, 8, {"groups": Repeat({"group_id": "many", "topics": None}, 200_000)}
    ),
    "OffsetFetch of topics": (
        9, 8, {"groups": [{"group_id": "many", "topics": Repeat(
            {"name": TOPIC, "partition_indexes": [0]}, 80_000
        )}]},
    ),
    "OffsetFetch of partitions": (
        9, 8, {"groups": [{"group_id": "many", "topics": [
            {"name": TOPIC, "partition_indexes": range(240_000)}
        ]}]},
    ),
    "FindCoordinator": (10, 4, {"coordinator_keys": names(100_000)}),
    "LeaveGroup": (
        13, 5, {"group_id": "many", "members": [{"member_id": name} for name in names(100_000)]}
    ),
    "DescribeGroups": (15, 5, {"groups": names(100_000)}),
    "DescribeGroups of one": (15, 5, {"groups": Repeat("many", 240_000)}),
    "CreateTopics": (
        19, 7, {"validate_only": True, "topics": [{"name": n, **NEW} for n in names(60_000)]}
    ),
    "CreateTopics with dots": (
        19, 7, {"validate_only": True, "topics": [{"name": n, **NEW} for n in names(60_000, "c.")]}
    ),
    "DeleteRecords": (
        21, 2, {"topics": [{"name": TOPIC, "partitions": Repeat(partition(0), 75_000)}]}
    ),
    "DescribeConfigs of one topic": (
        32, 4, {**DESCRIBED, "resources": Repeat(
            {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}, 50_000
        )},
    ),
    "DescribeConfigs of groups": (
        32, 4, {**DESCRIBED, "resources": [
            {"resource_type": 32, "resource_name": name, "configuration_keys": None}
            for name in names(90_000)
        ]},
    ),
    "DescribeConfigs of a broker": (
        32, 4, {**DESCRIBED, "resources": Repeat(
            {"resource_type": 4, "resource_name": "0", "configuration_keys": None}, 50_000
        )},
    ),
    "AlterConfigs": (
        33, 2, {"validate_only": True, "resources": Repeat(
            {"resource_type": 2, "resource_name": TOPIC}, 100_000
        )},
    ),
    "AlterReplicaLogDirs": (
        34, 2, {"dirs": [{"path": "/", "topics": [{"name": TOPIC, "partitions": range(240_000)}]}]}
    ),
    "DescribeLogDirs": (
        35, 4, {"topics": Repeat({"topic": TOPIC, "partitions": [0]}, 80_000)}
    ),
    "CreatePartitions": (
        37, 3, {"validate_only": True, "topics": [
            {"name": name, "count": 2, "assignments": None} for name in names(80_000)
        ]},
    ),
    "DeleteGroups": (42, 2, {"groups_names": names(100_000)}),
    "ElectLeaders": (
        43, 2, {"topic_partitions": [{"topic": TOPIC, "partitions": range(240_000)}]}
    ),
    "OffsetDelete": (
        47, 0, {"group_id": "many", "topics": [
            {"name": TOPIC, "partitions": Repeat(partition(0), 240_000)}
        ]},
    ),
    "AlterClientQuotas": (
        49, 1, {"validate_only": True, "entries": Repeat({"entity": USER}, 60_000)}
    ),
    "AlterClientQuotas that hold": (
        49, 1, {"entries": [
            {"entity": [{"entity_type": "user", "entity_name": name}], "ops": LIMIT}
            for name in names(4_000)
        ]},
    ),
    "AlterConfigs of groups": (
        33, 2, {"resources": [
            {"resource_type": 32, "resource_name": name, "configs": SESSION}
            for name in names(4_000)
        ]},
    ),
    "DescribeProducers": (
        61, 0, {"topics": [{"name": TOPIC, "partition_indexes": Repeat(0, 240_000)}]}
    ),
    "DescribeTransactions": (65, 0, {"transactional_ids": names(100_000)}),
    "ConsumerGroupDescribe": (69, 1, {"group_ids": names(100_000)}),
    "Fetch of topics that are absent": (
        1, 12, {**FETCH, "topics": [
            {"topic": name, "partitions": [fetched(0)]} for name in names(30_000)
        ]},
    ),
    "SyncGroup": (
        14, 5, {"group_id": "many", "assignments": [
            {"member_id": name, "assignment": b""} for name in names(100_000)
        ]},
    ),
    "ListGroups": (16, 5, {"states_filter": names(100_000), "types_filter": names(100_000)}),
    "DeleteTopics": (20, 6, {"topics": [{"name": name} for name in names(30_000)]}),
    "OffsetForLeaderEpoch": (
        23, 4, {"topics": [{"topic": TOPIC, "partitions": Repeat({"partition": 0}, 50_000)}]}
    ),
    "CreateAcls": (30, 3, {"creations": Repeat({"resource_name": "x"}, 50_000)}),
    "IncrementalAlterConfigs": (
        44, 1, {"validate_only": True, "resources": Repeat(
            {"resource_type": 2, "resource_name": TOPIC}, 100_000
        )},
    ),
    "AlterPartitionReassignments": (
        45, 0, {"topics": [
            {"name": TOPIC, "partitions": Repeat({"partition_index": 0, "replicas": [0]}, 80_000)}
        ]},
    ),
    "DescribeUserScramCredentials": (50, 0, {"users": [{"name": n} for n in names(100_000)]}),
    "ConsumerGroupHeartbeat": (
        68, 1, {"group_id": "many-owned", "member_id": "m", "rebalance_timeout": 60_000,
                "subscribed_topic_names": [TOPIC], "topic_partitions": [
            {"topic_id": UUID(int=n + 1), "partitions": [0]} for n in range(50_000)
        ]},
    ),
    "DescribeTopicPartitions": (
        75, 0, {"topics": [{"name": name} for name in names(50_000)],
                "response_partition_limit": 2_000},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_with_very_many_items_does_not_delay_other_clients(
    broker: Target, topic: str, name: str
) -> None:
    api, version, fields = REQUESTS[name]
    frame = large_frame(api, version, **fields)
    async with broker.watched():
        assert await broker.attack(frame) is not None


async def test_a_group_with_a_long_name_does_not_hide_the_others(broker: Target) -> None:
    """Old versions of ListGroups cannot write a string of more than 32,767 bytes."""
    frame = large_frame(
        8, 8, group_id="g" * 40_000, generation_id_or_member_epoch=-1,
        topics=[{"name": TOPIC, "partitions": [partition(0, committed_offset=1)]}],
    )  # fmt: skip
    async with broker.watched():
        assert await broker.attack(frame) is None
    assert (await broker.call(ApiKey.LIST_GROUPS, 1)).error_code == 0


async def test_a_configuration_of_20_mb_is_refused(broker: Target) -> None:
    value = ",".join(["1:2"] * 5_000_000)
    config = {"name": "leader.replication.throttled.replicas", "value": value}
    frame = large_frame(19, 7, topics=[{"name": "long-config", **NEW, "configs": [config]}])
    async with broker.watched():
        assert await broker.attack(frame) is None


async def test_fetch_sessions_of_one_client_are_bounded(broker: Target, topic: str) -> None:
    """Each has 20,000 partitions; above the bound a request is answered without a session."""
    parts = [fetched(number) for number in range(20_000)]
    frame = large_frame(
        1, 12, **{**FETCH, "session_epoch": 0}, topics=[{"topic": topic, "partitions": parts}]
    )
    client = await broker.connect()
    sessions = []
    async with broker.watched():
        for _ in range(8):
            client.writer.write(frame)
            reply = read_reply(await client.receive_frame(), ApiKey.FETCH, 12)
            sessions.append(reply.session_id != 0)
    assert sessions == [True] * 5 + [False] * 3
    await client.close()
    deadline = time.monotonic() + 5
    while True:  # the sessions end with their connection
        reply = read_reply(await broker.attack(frame) or b"", ApiKey.FETCH, 12)
        if reply.session_id or time.monotonic() > deadline:
            break
    assert reply.session_id
