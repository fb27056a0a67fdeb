"""Topics, configurations and offsets through confluent-kafka's admin client."""

import pytest
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

from tests.interop.capabilities import (
    BOUNDS,
    BY_TIME,
    CLUSTER,
    CONFIGS,
    DELETE_RECORDS,
    TIMES,
    TOPICS,
)
from tests.interop.clients import LIBRDKAFKA
from tests.interop.conftest import eventually
from tests.interop.records import numbered


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


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


@pytest.mark.cell("confluent-kafka", CLUSTER)
def test_confluent_describes_the_cluster(admin: AdminClient, bootstrap: str) -> None:
    described = admin.describe_cluster().result(20)
    assert described.cluster_id
    assert f"{described.nodes[0].host}:{described.nodes[0].port}" == bootstrap
