"""confluent-kafka's admin client."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.support.interop.admin.methods import Methods
from tests.support.interop.members.state import parse_place, place

LIMIT = 20


@cache  # an answer is lost when its client is collected before it came
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


class ConfluentAdmin(Methods):
    name = "confluent-kafka"
    variants = frozenset({"describe_consumer_group", "find_latest_time"})

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(configs))
        _admin(bootstrap).create_topics([new])[topic].result(LIMIT)

    def grow_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        wanted = NewPartitions(topic, partitions)
        _admin(bootstrap).create_partitions([wanted])[topic].result(LIMIT)

    def count_partitions(self, bootstrap: str, topic: str) -> int:
        asked = TopicCollection([topic])
        described = _admin(bootstrap).describe_topics(asked)[topic].result(LIMIT)
        return len(described.partitions)

    def list_topics(self, bootstrap: str) -> list[str]:
        return list(_admin(bootstrap).list_topics(timeout=LIMIT).topics)

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        _admin(bootstrap).delete_topics([topic])[topic].result(LIMIT)

    def describe_configs(self, bootstrap: str, topic: str) -> dict[str, str]:
        return _configs(bootstrap, ConfigResource(ResourceType.TOPIC, topic))

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str]:
        return _configs(bootstrap, ConfigResource(ResourceType.BROKER, str(broker)))

    def alter_configs(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        _admin(bootstrap).incremental_alter_configs([resource])[resource].result(LIMIT)

    def delete_records(self, bootstrap: str, topic: str, partition: int, offset: int) -> int:
        where = TopicPartition(topic, partition, offset)
        done = _admin(bootstrap).delete_records([where])[where].result(LIMIT)
        return int(done.low_watermark)

    def find_offset(self, bootstrap: str, topic: str, partition: int, time: int) -> int:
        special = {
            -1: OffsetSpec.latest(),
            -2: OffsetSpec.earliest(),
            -3: OffsetSpec.max_timestamp(),
        }
        where = TopicPartition(topic, partition)
        spec = special.get(time) or OffsetSpec.for_timestamp(time)
        return int(_admin(bootstrap).list_offsets({where: spec})[where].result(LIMIT).offset)

    def cluster(self, bootstrap: str) -> list[dict[str, object]]:
        nodes = _admin(bootstrap).describe_cluster().result(LIMIT).nodes
        return [{"id": each.id, "address": f"{each.host}:{each.port}"} for each in nodes]

    def list_groups(self, bootstrap: str) -> dict[str, object]:
        listed = _admin(bootstrap).list_consumer_groups().result(LIMIT)
        assert not listed.errors, listed.errors
        return {
            each.group_id: {"state": each.state.name, "type": each.type.name}
            for each in listed.valid
        }

    def describe_group(self, bootstrap: str, group: str) -> dict[str, object]:
        described = _admin(bootstrap).describe_consumer_groups([group])[group].result(LIMIT)
        members = {
            each.member_id: [
                place(where.topic, where.partition) for where in each.assignment.topic_partitions
            ]
            for each in described.members
        }
        return {"state": described.state.name, "members": members}

    def delete_group(self, bootstrap: str, group: str) -> None:
        _admin(bootstrap).delete_consumer_groups([group])[group].result(LIMIT)

    def group_offsets(self, bootstrap: str, group: str) -> dict[str, Any]:
        asked = [ConsumerGroupTopicPartitions(group)]
        answer = _admin(bootstrap).list_consumer_group_offsets(asked)[group].result(LIMIT)
        return {
            place(each.topic, each.partition): {"offset": each.offset}
            for each in answer.topic_partitions
        }

    def alter_offsets(self, bootstrap: str, group: str, offsets: Mapping[str, Any]) -> None:
        wanted = [
            TopicPartition(*parse_place(where), each["offset"]) for where, each in offsets.items()
        ]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        done = _admin(bootstrap).alter_consumer_group_offsets(asked)[group].result(LIMIT)
        assert all(each.error is None for each in done.topic_partitions), done

    def elect_leader(self, bootstrap: str, topic: str, partition: int) -> None:
        where = TopicPartition(topic, partition)
        done = _admin(bootstrap).elect_leaders(ElectionType.PREFERRED, [where]).result(LIMIT)
        if done[where] is not None:
            raise RuntimeError(str(done[where]))


def _configs(bootstrap: str, resource: ConfigResource) -> dict[str, str]:
    found = _admin(bootstrap).describe_configs([resource])[resource].result(LIMIT)
    return {name: entry.value for name, entry in found.items()}
