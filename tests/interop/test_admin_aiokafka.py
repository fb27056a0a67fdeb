"""Topics, configurations and offsets through aiokafka's admin client."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

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


def with_admin(bootstrap: str, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
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
        return with_admin(bootstrap, ask)

    call(lambda admin: admin.create_topics([NewTopic(name, 2, 1)]))
    eventually(lambda: name in call(lambda admin: admin.list_topics()))
    call(lambda admin: admin.create_partitions({name: NewPartitions(total_count=4)}))
    describe = partial(call, lambda admin: admin.describe_topics([name]))
    eventually(lambda: len(describe()[0]["partitions"]) == 4)
    call(lambda admin: admin.delete_topics([name]))
    eventually(lambda: name not in call(lambda admin: admin.list_topics()))


@pytest.mark.cell("aiokafka", CONFIGS)
def test_aiokafka_reads_and_changes_configurations(bootstrap: str, topic: str) -> None:
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7654321"})
    with_admin(bootstrap, lambda admin: admin.alter_configs([wanted]))
    asked = ConfigResource(ConfigResourceType.TOPIC, topic)

    def retention() -> object:
        (answer,) = with_admin(bootstrap, lambda admin: admin.describe_configs([asked]))
        return {row[0]: row[1] for row in answer.resources[0][4]}["retention.ms"]

    eventually(lambda: retention() == "7654321")


@pytest.mark.cell("aiokafka", BY_TIME)
@pytest.mark.cell("aiokafka", BOUNDS)
def test_aiokafka_finds_offsets(bootstrap: str, timed_topic: str) -> None:
    async def find() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            place = TopicPartition(timed_topic, 0)
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: 3}
            found = (await consumer.offsets_for_times({place: TIMES[1] + 1}))[place]
            assert (found.offset, found.timestamp) == (2, TIMES[2])
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(find(), 60))


@pytest.mark.cell("aiokafka", DELETE_RECORDS)
def test_aiokafka_deletes_records(bootstrap: str, topic: str) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    wanted = {TopicPartition(topic, 0): RecordsToDelete(before_offset=10)}
    low = with_admin(bootstrap, lambda admin: admin.delete_records(wanted))
    assert low == {TopicPartition(topic, 0): 10}
    received = LIBRDKAFKA.consume(bootstrap, topic, offset=10, count=20)
    assert [came.record for came in received] == numbered(20, first=10)


@pytest.mark.cell("aiokafka", CLUSTER)
def test_aiokafka_describes_the_cluster(bootstrap: str) -> None:
    described = with_admin(bootstrap, lambda admin: admin.describe_cluster())
    broker = described["brokers"][0]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
