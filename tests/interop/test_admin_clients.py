"""Topics, partitions, configurations and offsets through the clients' own admin interfaces."""

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.interop.clients import CLIENTS
from tests.interop.clients.kcat import run_kcat
from tests.interop.conftest import create_topic, eventually
from tests.interop.records import Record, numbered

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its own files in a deprecated way when imported
    from kafka import KafkaAdminClient, KafkaConsumer
    from kafka import TopicPartition as PythonPartition

LIBRDKAFKA = CLIENTS[1]
TOPICS = "create, grow and delete topics"
CONFIGS = "describe and alter configurations"
DELETE_RECORDS = "delete records"
BY_TIME = "offsets by time"
BOUNDS = "first and last offsets"

TIMES = (1_700_000_000_000, 1_700_000_005_000, 1_700_000_010_000)


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def timed_topic(bootstrap: str, topic: str) -> str:
    """Three records, five seconds apart, in one batch."""
    records = [Record(b"v", b"k", (), time) for time in TIMES]
    LIBRDKAFKA.produce(bootstrap, topic, records)
    return topic


@pytest.mark.cell("confluent-kafka", TOPICS)
def test_confluent_creates_grows_and_deletes_a_topic(admin: AdminClient) -> None:
    name = "made-by-confluent-admin"
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    with pytest.raises(KafkaException, match="already exists"):
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(20)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(20)

    def partitions() -> list[int]:
        described = admin.describe_topics(TopicCollection([name]))[name].result(20)
        return [each.id for each in described.partitions]

    eventually(lambda: partitions() == [0, 1, 2, 3, 4])
    admin.delete_topics([name])[name].result(20)
    eventually(lambda: name not in admin.list_topics(timeout=20).topics)


@pytest.mark.cell("confluent-kafka", CONFIGS)
def test_confluent_reads_and_changes_configurations(admin: AdminClient, topic: str) -> None:
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(20)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([asked])[asked].result(20)
    assert configs["retention.ms"].value == "123456"
    assert not configs["retention.ms"].is_default
    assert configs["max.message.bytes"].is_default

    wrong = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("no.such.setting", "1", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    with pytest.raises(KafkaException):
        admin.incremental_alter_configs([wrong])[wrong].result(20)


@pytest.mark.cell("confluent-kafka", DELETE_RECORDS)
def test_confluent_deletes_records(admin: AdminClient, bootstrap: str, topic: str) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    place = TopicPartition(topic, 0, 10)
    deleted = admin.delete_records([place])[place].result(20)
    assert deleted.low_watermark == 10
    received = LIBRDKAFKA.consume(bootstrap, topic, offset=10, count=20)
    assert [came.record for came in received] == numbered(20, first=10)


@pytest.mark.cell("confluent-kafka", BOUNDS)
def test_confluent_lists_offsets(admin: AdminClient, timed_topic: str) -> None:
    place = TopicPartition(timed_topic, 0)
    expected = {
        OffsetSpec.earliest(): 0,
        OffsetSpec.latest(): 3,
        OffsetSpec.max_timestamp(): 2,
        OffsetSpec.for_timestamp(TIMES[1]): 1,
        OffsetSpec.for_timestamp(TIMES[1] + 1): 2,
    }
    for spec, offset in expected.items():
        assert admin.list_offsets({place: spec})[place].result(20).offset == offset


@pytest.mark.cell("confluent-kafka", BY_TIME)
def test_confluent_finds_offsets_by_time(bootstrap: str, timed_topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not-used"})
    try:
        wanted = [TopicPartition(timed_topic, 0, TIMES[1] - 1)]
        assert consumer.offsets_for_times(wanted, 20)[0].offset == 1
        assert consumer.get_watermark_offsets(wanted[0], 20) == (0, 3)
    finally:
        consumer.close()


@pytest.mark.cell("confluent-kafka", "describe the cluster")
def test_confluent_describes_the_cluster(admin: AdminClient, bootstrap: str) -> None:
    described = admin.describe_cluster().result(20)
    assert described.cluster_id
    assert f"{described.nodes[0].host}:{described.nodes[0].port}" == bootstrap


@pytest.mark.cell("kcat", BY_TIME)
def test_kcat_finds_offsets_by_time(bootstrap: str, timed_topic: str) -> None:
    lines = run_kcat(bootstrap, f"{timed_topic}:0:{TIMES[1] - 1}", "-Q", "-J")
    assert json.loads(lines)[timed_topic]["0"]["offset"] == 1


@pytest.mark.cell("kcat", "list topics and brokers")
def test_kcat_lists_metadata(bootstrap: str, topic: str) -> None:
    metadata = json.loads(run_kcat(bootstrap, topic, "-L", "-J"))
    assert metadata["brokers"][0]["name"] == bootstrap
    assert [each["topic"] for each in metadata["topics"]] == [topic]


@pytest.mark.cell("kafka-python", TOPICS)
def test_kafka_python_creates_grows_and_deletes_a_topic(bootstrap: str) -> None:
    name = "made-by-kafka-python-admin"

    def call(ask: Callable[[Any], Any]) -> Any:
        return with_admin_python(bootstrap, ask)

    call(lambda admin: admin.create_topics({name: {"num_partitions": 2}}))
    eventually(lambda: name in call(lambda admin: admin.list_topics()))
    call(lambda admin: admin.create_partitions({name: 4}))
    describe = partial(call, lambda admin: admin.describe_topics([name]))
    eventually(lambda: len(describe()[0]["partitions"]) == 4)
    call(lambda admin: admin.delete_topics([name]))
    eventually(lambda: name not in call(lambda admin: admin.list_topics()))


def with_admin_python(bootstrap: str, call: Callable[[Any], Any]) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return call(admin)
    finally:
        admin.close()


@pytest.mark.cell("kafka-python", BY_TIME)
@pytest.mark.cell("kafka-python", BOUNDS)
def test_kafka_python_finds_offsets(bootstrap: str, timed_topic: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        place = PythonPartition(timed_topic, 0)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 3}
        found = consumer.offsets_for_times({place: TIMES[1] + 1})[place]
        assert (found.offset, found.timestamp) == (2, TIMES[2])
    finally:
        consumer.close()


def with_admin_aio(bootstrap: str, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.cell("aiokafka", TOPICS)
def test_aiokafka_creates_grows_and_deletes_a_topic(bootstrap: str) -> None:
    name = "made-by-aiokafka-admin"

    def call(ask: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        return with_admin_aio(bootstrap, ask)

    call(lambda admin: admin.create_topics([AioNewTopic(name, 2, 1)]))
    eventually(lambda: name in call(lambda admin: admin.list_topics()))
    call(lambda admin: admin.create_partitions({name: AioNewPartitions(total_count=4)}))
    describe = partial(call, lambda admin: admin.describe_topics([name]))
    eventually(lambda: len(describe()[0]["partitions"]) == 4)
    call(lambda admin: admin.delete_topics([name]))
    eventually(lambda: name not in call(lambda admin: admin.list_topics()))


@pytest.mark.cell("aiokafka", CONFIGS)
def test_aiokafka_reads_and_changes_configurations(bootstrap: str, topic: str) -> None:
    wanted = AioConfigResource(AioResourceType.TOPIC, topic, {"retention.ms": "7654321"})
    with_admin_aio(bootstrap, lambda admin: admin.alter_configs([wanted]))
    asked = AioConfigResource(AioResourceType.TOPIC, topic)

    def retention() -> object:
        (answer,) = with_admin_aio(bootstrap, lambda admin: admin.describe_configs([asked]))
        return {row[0]: row[1] for row in answer.resources[0][4]}["retention.ms"]

    eventually(lambda: retention() == "7654321")


@pytest.mark.cell("aiokafka", BY_TIME)
@pytest.mark.cell("aiokafka", BOUNDS)
def test_aiokafka_finds_offsets(bootstrap: str, timed_topic: str) -> None:
    async def find() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            place = AioPartition(timed_topic, 0)
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 3}
            found = (await consumer.offsets_for_times({place: TIMES[1] + 1}))[place]
            assert (found.offset, found.timestamp) == (2, TIMES[2])
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(find(), 60))


@pytest.mark.cell("confluent-kafka", "max.message.bytes honoured")
def test_a_batch_past_the_topics_limit_is_refused(bootstrap: str) -> None:
    topic = create_topic(bootstrap, max_message_bytes="2000")
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        LIBRDKAFKA.produce(bootstrap, topic, [Record(b"x" * 5000)])
    LIBRDKAFKA.produce(bootstrap, topic, [Record(b"x" * 500)])


@pytest.mark.cell("confluent-kafka", "log append time")
def test_log_append_time_replaces_the_clients_timestamp(bootstrap: str) -> None:
    topic = create_topic(bootstrap, message_timestamp_type="LogAppendTime")
    LIBRDKAFKA.produce(bootstrap, topic, [Record(b"v", b"k", (), TIMES[0])], codec="zstd")
    for client in CLIENTS:
        (received,) = client.consume(bootstrap, topic, count=1)
        assert received.timestamp_ms > TIMES[2]
