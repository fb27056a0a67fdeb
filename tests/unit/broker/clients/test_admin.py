"""Log directories, elections, reassignments, producers and transactions."""

import threading
from pathlib import Path
from typing import Any

import pytest

from headwater.app.storage_engine import log_directory
from headwater.broker.handlers import list_transactions
from headwater.groups.bounds import MAX_PATTERN_CHARS
from headwater.groups.consumer.patterns import pattern_fault
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker, batch, produce_fields, running_broker


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_partition_is_in_the_one_log_directory(
    broker: RunningBroker, version: int
) -> None:
    await broker.create_topic("t", partitions=2)
    records = batch(b"x" * 1000)
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records, partition=1))
    response = await broker.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
    (found,) = response.results
    assert (found.error_code, found.log_dir) == (0, "memory://")
    (topic,) = found.topics
    sizes = {p.partition_index: (p.partition_size, p.offset_lag) for p in topic.partitions}
    assert sizes == {0: (0, 0), 1: (len(records), 0)}
    if version >= 4:
        assert (found.total_bytes, found.usable_bytes) == (-1, -1)


async def test_trimmed_records_are_not_in_the_size(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    for _ in range(3):
        await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 100)))
    topic = await broker.engine.topics.find("t")
    before = (await broker.engine.sizes(topic.streams))[topic.streams[0]]
    await broker.engine.delete_records(topic, 0, 2)
    after = (await broker.engine.sizes(topic.streams))[topic.streams[0]]
    assert after == before // 3
    await broker.engine.delete_records(topic, 0, 3)
    assert (await broker.engine.sizes(topic.streams))[topic.streams[0]] == 0


async def test_sizes_of_many_partitions_are_those_of_each(broker: RunningBroker) -> None:
    await broker.create_topic("many", partitions=1200)
    records = batch(b"x")
    for partition in (0, 599, 1199):
        await broker.call(ApiKey.PRODUCE, 9, **produce_fields("many", records, partition=partition))
    response = await broker.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    found = {
        p.partition_index: p.partition_size
        for topic in response.results[0].topics
        for p in topic.partitions
    }
    assert len(found) == 1200
    assert {p for p, size in found.items() if size} == {0, 599, 1199}


async def test_named_partitions_alone_are_described(broker: RunningBroker) -> None:
    await broker.create_topic("t", partitions=2)
    asked = [{"topic": "t", "partitions": [1, 7]}, {"topic": "no", "partitions": [0]}]
    response = await broker.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=asked)
    (topic,) = response.results[0].topics
    assert [p.partition_index for p in topic.partitions] == [1]
    response = await broker.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[])
    assert response.results[0].topics == ()


async def test_a_local_directory_has_total_and_usable_bytes(tmp_path: Path) -> None:
    async with running_broker(directory=log_directory(tmp_path.as_uri())) as broker:
        (found,) = (await broker.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)).results
    assert found.log_dir == str(tmp_path)
    assert 0 < found.usable_bytes <= found.total_bytes


def test_a_stores_url_is_shown_without_its_secrets() -> None:
    found = log_directory("s3://key:secret@bucket/a?access_key=x")
    assert (found.name, found.path) == ("s3://bucket/a", None)


async def test_a_replica_is_in_the_one_directory_already(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    asked = [
        {"path": "memory://", "topics": [{"name": "t", "partitions": [0, 9]}]},
        {"path": "memory://", "topics": [{"name": "no", "partitions": [0]}]},
        {"path": "/else", "topics": [{"name": "t", "partitions": [0]}]},
    ]
    response = await broker.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=asked)
    codes = [[p.error_code for p in topic.partitions] for topic in response.results]
    assert codes == [
        [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.LOG_DIR_NOT_FOUND],
    ]


@pytest.mark.parametrize("version", range(3))
async def test_no_election_is_ever_needed(broker: RunningBroker, version: int) -> None:
    await broker.create_topic("t")
    fields: dict[str, Any] = {"timeout": 1000, "topic_partitions": [
        {"topic": "t", "partitions": [0, 5]}, {"topic": "no", "partitions": [0]},
    ]}  # fmt: skip
    if version:
        fields["election_type"] = 0
    response = await broker.call(ApiKey.ELECT_LEADERS, version, **fields)
    codes = [[p.error_code for p in t.partition_result] for t in response.replica_election_results]
    assert codes == [
        [Code.ELECTION_NOT_NEEDED, Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.UNKNOWN_TOPIC_OR_PARTITION],
    ]


async def test_an_election_of_all_partitions_finds_nothing_to_do(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    response = await broker.call(
        ApiKey.ELECT_LEADERS, 2, timeout=1000, election_type=0, topic_partitions=None
    )
    assert (response.error_code, response.replica_election_results) == (0, ())


async def test_an_unknown_kind_of_election_is_refused(broker: RunningBroker) -> None:
    asked = [{"topic": "t", "partitions": [0]}]
    response = await broker.call(
        ApiKey.ELECT_LEADERS, 2, timeout=1000, election_type=7, topic_partitions=asked
    )
    assert response.error_code == Code.INVALID_REQUEST
    assert (
        response.replica_election_results[0].partition_result[0].error_code == Code.INVALID_REQUEST
    )


async def test_a_reassignment_to_living_brokers_is_done_at_once(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    wanted: list[tuple[int, list[int] | None]] = [
        (0, [1]), (0, [2]), (0, []), (0, [1, 1]), (0, None), (9, [1]), (9, None)
    ]  # fmt: skip
    topics = [
        {"name": "t", "partitions": [{"partition_index": p, "replicas": r} for p, r in wanted]},
        {"name": "no", "partitions": [{"partition_index": 0, "replicas": [1]}]},
    ]
    response = await broker.call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, timeout=1000, topics=topics
    )
    codes = [[p.error_code for p in t.partitions] for t in response.responses]
    assert codes == [
        [
            Code.NONE,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.INVALID_REPLICA_ASSIGNMENT,
            Code.NO_REASSIGNMENT_IN_PROGRESS,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
        ],
        [Code.UNKNOWN_TOPIC_OR_PARTITION],
    ]
    listed = await broker.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=1000, topics=None)
    assert (listed.error_code, listed.topics) == (0, ())


async def test_the_producers_of_a_partition_are_described(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    records = batch(b"a", b"b", producer_id=7, producer_epoch=3, base_sequence=0)
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    asked = [
        {"name": "t", "partition_indexes": [0, 4]},
        {"name": "no", "partition_indexes": [0]},
        {"name": "a b", "partition_indexes": [0]},
    ]
    response = await broker.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    codes = [[p.error_code for p in topic.partitions] for topic in response.topics]
    assert codes == [
        [Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.UNKNOWN_TOPIC_OR_PARTITION],
        [Code.INVALID_TOPIC_EXCEPTION],
    ]
    (producer,) = response.topics[0].partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert producer.last_timestamp > 0


async def test_no_transactional_id_is_known(broker: RunningBroker) -> None:
    response = await broker.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["a", ""])
    assert [one.error_code for one in response.transaction_states] == [
        Code.TRANSACTIONAL_ID_NOT_FOUND,
        Code.INVALID_REQUEST,
    ]


@pytest.mark.parametrize("version", range(3))
async def test_filters_of_transactions_are_checked(broker: RunningBroker, version: int) -> None:
    fields: dict[str, Any] = {"state_filters": ["Ongoing", "Zip"], "producer_id_filters": [5]}
    fields |= {"duration_filter": -1} if version else {}
    response = await broker.call(ApiKey.LIST_TRANSACTIONS, version, **fields)
    assert (response.error_code, response.unknown_state_filters) == (0, ("Zip",))
    assert response.transaction_states == ()


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("[", Code.INVALID_REGULAR_EXPRESSION),
        ("a.*", Code.NONE),
        ("", Code.NONE),
        (None, Code.NONE),
    ],
)
async def test_an_illegal_pattern_of_transactional_ids_is_refused(
    broker: RunningBroker, pattern: str | None, code: int
) -> None:
    response = await broker.call(
        ApiKey.LIST_TRANSACTIONS, 2,
        state_filters=[], producer_id_filters=[], duration_filter=-1,
        transactional_id_pattern=pattern,
    )  # fmt: skip
    assert response.error_code == code


async def test_a_pattern_of_transactional_ids_is_bounded_and_compiled_in_a_thread(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def checked(pattern: str) -> str | None:
        threads.append(threading.current_thread())
        return pattern_fault(pattern)

    monkeypatch.setattr(list_transactions, "pattern_fault", checked)
    fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}
    for pattern in ("a" * MAX_PATTERN_CHARS, "a" * (MAX_PATTERN_CHARS + 1), r"\p{L}" * 800):
        response = await broker.call(
            ApiKey.LIST_TRANSACTIONS, 2, **fields, transactional_id_pattern=pattern
        )
        assert response.error_code == (
            Code.NONE if pattern == "a" * MAX_PATTERN_CHARS else Code.INVALID_REGULAR_EXPRESSION
        )
    assert len(threads) == 3
    assert threading.main_thread() not in threads
