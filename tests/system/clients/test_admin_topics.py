"""Topics, configurations and offsets through every admin client."""

from typing import cast

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.support.interop.admin import Admin, for_each_admin
from tests.support.interop.capabilities import BOUNDS, BY_TIME, CLUSTER, TIMES
from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.records import numbered
from tests.support.waiting import wait_until
from tests.system.clients.conftest import create_topic, fresh_name


@for_each_admin(
    "CreateTopics, CreatePartitions, DeleteTopics, Metadata", "create_topic", "grow_topic"
)
def test_a_topic_is_created_grows_and_is_deleted(bootstrap: str, admin: Admin) -> None:
    name = fresh_name("made-by-admin")
    configs = {"retention.ms": "7654321"}
    admin.call("create_topic", bootstrap, topic=name, partitions=2, configs=configs)
    wait_until(lambda: name in admin.call("list_topics", bootstrap))
    assert admin.call("describe_configs", bootstrap, topic=name)["retention.ms"] == "7654321"
    with pytest.raises(Exception, match=r"(?i)exists|TOPIC_ALREADY_EXISTS|36"):
        admin.call("create_topic", bootstrap, topic=name, partitions=2, configs={})
    admin.call("grow_topic", bootstrap, topic=name, partitions=5)
    wait_until(lambda: admin.call("count_partitions", bootstrap, topic=name) == 5)
    admin.call("delete_topic", bootstrap, topic=name)
    wait_until(lambda: name not in admin.call("list_topics", bootstrap))


@for_each_admin("Metadata, DeleteTopics by topic id", "describe_topic_by_id", "delete_topic_by_id")
def test_a_topic_is_described_and_deleted_by_its_id(bootstrap: str, admin: Admin) -> None:
    name = create_topic(bootstrap, partitions=3)
    topic_id = admin.call("topic_id", bootstrap, topic=name)
    described = admin.call("describe_topic_by_id", bootstrap, topic_id=topic_id)
    assert described == {"name": name, "partitions": 3}
    admin.call("delete_topic_by_id", bootstrap, topic_id=topic_id)
    wait_until(lambda: name not in admin.call("list_topics", bootstrap))
    with pytest.raises(Exception, match=r"(?i)unknown.*topic.*id"):
        admin.call("describe_topic_by_id", bootstrap, topic_id=topic_id)


@for_each_admin("DescribeConfigs, AlterConfigs of topics", "describe_configs", "alter_configs")
def test_a_topics_configurations_are_read_and_changed(
    bootstrap: str, topic: str, admin: Admin
) -> None:
    before = admin.call("describe_configs", bootstrap, topic=topic)
    assert before["retention.ms"] == "-1"
    assert before["cleanup.policy"] == "delete"
    configs = {"retention.ms": "7654321"}
    admin.call("alter_configs", bootstrap, topic=topic, configs=configs)

    def retention() -> object:
        return admin.call("describe_configs", bootstrap, topic=topic)["retention.ms"]

    wait_until(lambda: retention() == "7654321")


@pytest.mark.cell("confluent-kafka", "DescribeConfigs, AlterConfigs of topics")
def test_describe_marks_defaults_and_unknown_configs_are_refused(
    bootstrap: str, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def alter(name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([changed])[changed].result(20)

    alter("retention.ms", "123456")
    asked = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([asked])[asked].result(20)
    assert not configs["retention.ms"].is_default
    assert configs["max.message.bytes"].is_default
    with pytest.raises(KafkaException, match=r"no\.such\.setting"):
        alter("no.such.setting", "1")


def broker_id(bootstrap: str, admin: Admin) -> int:
    return cast("int", admin.call("cluster", bootstrap)[0]["id"])


@for_each_admin("DescribeConfigs of brokers", "broker_configs")
def test_a_brokers_configurations_are_read(bootstrap: str, admin: Admin) -> None:
    configs = admin.call("broker_configs", bootstrap, broker=broker_id(bootstrap, admin))
    assert configs["auto.create.topics.enable"] == "true"
    assert int(configs["message.max.bytes"]) > 0


@for_each_admin("ListConfigResources", "config_resources")
def test_resources_with_configurations_are_listed(bootstrap: str, topic: str, admin: Admin) -> None:
    listed = admin.call("config_resources", bootstrap)
    assert topic in listed
    assert str(broker_id(bootstrap, admin)) in listed


@for_each_admin(CLUSTER, "cluster")
def test_the_brokers_are_described(bootstrap: str, admin: Admin) -> None:
    assert [each["address"] for each in admin.call("cluster", bootstrap)] == [bootstrap]


@for_each_admin("DeleteRecords", "delete_records")
def test_records_are_deleted(bootstrap: str, topic: str, admin: Admin) -> None:
    LIBRDKAFKA.produce(bootstrap, topic, numbered(30))
    low = admin.call("delete_records", bootstrap, topic=topic, partition=0, offset=10)
    assert low == 10
    received = LIBRDKAFKA.consume(bootstrap, topic, offset=10, count=20)
    assert [came.record for came in received] == numbered(20, first=10)
    assert find(admin, bootstrap, topic, -2) == 10


def find(admin: Admin, bootstrap: str, topic: str, time: int) -> object:
    return admin.call("find_offset", bootstrap, topic=topic, partition=0, time=time)


@for_each_admin(BOUNDS, "find_offset")
def test_the_first_and_the_last_offset_are_found(
    bootstrap: str, timed_topic: str, admin: Admin
) -> None:
    assert find(admin, bootstrap, timed_topic, -2) == 0
    assert find(admin, bootstrap, timed_topic, -1) == len(TIMES)


@for_each_admin(BY_TIME, "find_offset")
def test_offsets_are_found_by_time(bootstrap: str, timed_topic: str, admin: Admin) -> None:
    assert find(admin, bootstrap, timed_topic, TIMES[1]) == 1
    assert find(admin, bootstrap, timed_topic, TIMES[1] + 1) == 2


@for_each_admin("ListOffsets, latest time", "find_latest_time")
def test_the_offset_of_the_latest_time_is_found(
    bootstrap: str, timed_topic: str, admin: Admin
) -> None:
    assert find(admin, bootstrap, timed_topic, -3) == 2
