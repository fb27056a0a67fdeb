"""Topics, configurations and offsets through kafka-python's admin client."""

from collections.abc import Callable
from functools import partial
from typing import Any

import kafka  # imported quietly by the client before
import kafka.admin
import pytest

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


@pytest.mark.cell("kafka-python", TOPICS)
def test_kafka_python_creates_grows_and_deletes_a_topic(bootstrap: str) -> None:
    name = "made-by-kafka-python-admin"

    def call(ask: Callable[[Any], Any]) -> Any:
        return with_admin(bootstrap, ask)

    call(lambda admin: admin.create_topics({name: {"num_partitions": 2}}))
    eventually(lambda: name in call(lambda admin: admin.list_topics()))
    call(lambda admin: admin.create_partitions({name: 4}))
    describe = partial(call, lambda admin: admin.describe_topics([name]))
    eventually(lambda: len(describe()[0]["partitions"]) == 4)
    call(lambda admin: admin.delete_topics([name]))
    eventually(lambda: name not in call(lambda admin: admin.list_topics()))


def with_admin(bootstrap: str, call: Callable[[Any], Any]) -> Any:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return call(admin)
    finally:
        admin.close()


@pytest.mark.cell("kafka-python", BY_TIME)
@pytest.mark.cell("kafka-python", BOUNDS)
def test_kafka_python_finds_offsets(bootstrap: str, timed_topic: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        place = kafka.TopicPartition(timed_topic, 0)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 3}
        found = consumer.offsets_for_times({place: TIMES[1] + 1})[place]
        assert (found.offset, found.timestamp) == (2, TIMES[2])
    finally:
        consumer.close()


@pytest.mark.cell("kafka-python", CONFIGS)
def test_kafka_python_reads_and_changes_configurations(bootstrap: str, topic: str) -> None:
    resource = kafka.admin.ConfigResource(
        kafka.admin.ConfigResourceType.TOPIC, topic, {"retention.ms": "7654321"}
    )
    with_admin(bootstrap, lambda admin: admin.alter_configs([resource]))
    asked = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, topic)

    def retention() -> str:
        return str(with_admin(bootstrap, lambda admin: admin.describe_configs([asked])))

    eventually(lambda: "7654321" in retention())


@pytest.mark.cell("kafka-python", DELETE_RECORDS)
def test_kafka_python_deletes_records(bootstrap: str, topic: str) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    place = kafka.TopicPartition(topic, 0)
    with_admin(bootstrap, lambda admin: admin.delete_records({place: 10}))
    received = LIBRDKAFKA.consume(bootstrap, topic, offset=10, count=20)
    assert [came.record for came in received] == numbered(20, first=10)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        assert consumer.beginning_offsets([place]) == {place: 10}
    finally:
        consumer.close()


@pytest.mark.cell("kafka-python", CLUSTER)
def test_kafka_python_describes_the_cluster(bootstrap: str) -> None:
    described = with_admin(bootstrap, lambda admin: admin.describe_cluster())
    broker = described["brokers"][0]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
