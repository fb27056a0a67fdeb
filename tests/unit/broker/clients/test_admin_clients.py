"""Admin calls by real clients: kafka-python and librdkafka."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker, batch, produce_fields

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""kafka-python reads its own files in a deprecated way."""


async def with_kafka_python(broker: RunningBroker, work: Callable[[Any], Any]) -> Any:
    def run() -> Any:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{broker.port}")
        try:
            return work(admin)
        finally:
            admin.close()

    return await asyncio.to_thread(run)


async def test_kafka_python_sees_the_log_directory(broker: RunningBroker) -> None:
    await broker.create_topic("t", 2)
    records = batch(b"x")
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    (found,) = await with_kafka_python(broker, lambda admin: admin.describe_log_dirs())
    shown = str(found)
    assert "memory://" in shown
    assert f"'partition_size': {len(records)}" in shown


async def test_kafka_python_moves_and_elects_nothing(broker: RunningBroker) -> None:
    from kafka import TopicPartition
    from kafka.errors import NoReassignmentInProgressError

    await broker.create_topic("t", 2)
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)

    def work(admin: Any) -> Any:
        moved = admin.alter_partition_reassignments({zero: [1], one: None})
        elected = admin.elect_leaders(0, {"t": [0]}, raise_errors=False)
        return moved, admin.list_partition_reassignments(), elected

    moved, listed, elected = await with_kafka_python(broker, work)
    assert moved == {zero: None, one: NoReassignmentInProgressError}
    assert listed == {}
    assert "84" in str(elected)


async def test_kafka_python_sees_producers_and_no_transactions(broker: RunningBroker) -> None:
    from kafka import TopicPartition
    from kafka.errors import TransactionalIdNotFoundError

    await broker.create_topic("t")
    records = batch(b"a", producer_id=7, producer_epoch=3, base_sequence=0)
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", records))
    partition = TopicPartition("t", 0)
    found = await with_kafka_python(broker, lambda admin: admin.describe_producers([partition]))
    (producer,) = found[partition].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 0)
    listed = await with_kafka_python(broker, lambda admin: admin.list_transactions())
    assert listed == {1: []}
    with pytest.raises(TransactionalIdNotFoundError):
        await with_kafka_python(broker, lambda admin: admin.describe_transactions(["x"]))


async def test_kafka_python_sets_what_a_broker_and_its_topics_show(broker: RunningBroker) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    await broker.create_topic("t")

    def work(admin: Any) -> Any:
        admin.alter_configs([ConfigResource("BROKER", "1", {"log.retention.ms": "7000"})])
        topic = ConfigResource(ConfigResourceType.TOPIC, "t")
        shown = admin.describe_configs([topic], include_synonyms=True, config_filter="all")
        return shown, admin.list_config_resources()

    shown, listed = await with_kafka_python(broker, work)
    assert "7000" in str(shown)
    assert {kind.upper(): names for kind, names in listed.items()}["TOPIC"] == ["t"]


async def test_librdkafka_alters_groups_and_brokers(broker: RunningBroker) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    def work() -> dict[str, str]:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        entry = ConfigEntry(
            "log.retention.bytes", "4096", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(10)
        asked = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
        (future,) = asked.values()
        return {name: one.value for name, one in future.result(10).items()}

    found = await asyncio.to_thread(work)
    assert found["log.retention.bytes"] == "4096"
    assert broker.services.dynamic.brokers.topic_defaults == {"retention.bytes": "4096"}


async def test_librdkafka_elects_nothing(broker: RunningBroker) -> None:
    from confluent_kafka import ElectionType, TopicPartition
    from confluent_kafka.admin import AdminClient

    await broker.create_topic("t")

    def work() -> Any:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
        asked = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("t", 0)])
        return asked.result(10)

    (error,) = (await asyncio.to_thread(work)).values()
    assert error.code() == Code.ELECTION_NOT_NEEDED
