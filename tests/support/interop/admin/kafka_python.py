"""kafka-python's admin client."""

from collections.abc import Mapping
from typing import Any

import kafka
import kafka.admin
import kafka.errors

from tests.support.interop.admin.methods import Methods
from tests.support.interop.members.state import parse_place, place

TOPIC, BROKER = kafka.admin.ConfigResourceType.TOPIC, kafka.admin.ConfigResourceType.BROKER


def _ask(bootstrap: str, op: str, *arguments: object, **options: object) -> Any:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return getattr(admin, op)(*arguments, **options)
    finally:
        admin.close()


class KafkaPythonAdmin(Methods):
    name = "kafka-python"
    variants = frozenset({"find_latest_time"})

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        wanted = {topic: {"num_partitions": partitions, "configs": dict(configs)}}
        _ask(bootstrap, "create_topics", wanted)

    def grow_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        _ask(bootstrap, "create_partitions", {topic: partitions})

    def count_partitions(self, bootstrap: str, topic: str) -> int:
        return len(_ask(bootstrap, "describe_topics", [topic])[0]["partitions"])

    def list_topics(self, bootstrap: str) -> list[str]:
        return list(_ask(bootstrap, "list_topics"))

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        _ask(bootstrap, "delete_topics", [topic])

    def describe_configs(self, bootstrap: str, topic: str) -> dict[str, str]:
        return _configs(bootstrap, kafka.admin.ConfigResource(TOPIC, topic))

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str]:
        return _configs(bootstrap, kafka.admin.ConfigResource(BROKER, str(broker)))

    def alter_configs(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        _ask(bootstrap, "alter_configs", [kafka.admin.ConfigResource(TOPIC, topic, dict(configs))])

    def config_resources(self, bootstrap: str) -> list[str]:
        listed = _ask(bootstrap, "list_config_resources")
        return [name for names in listed.values() for name in names]

    def delete_records(self, bootstrap: str, topic: str, partition: int, offset: int) -> int:
        where = kafka.TopicPartition(topic, partition)
        return int(_ask(bootstrap, "delete_records", {where: offset})[where]["low_watermark"])

    def find_offset(self, bootstrap: str, topic: str, partition: int, time: int) -> int:
        where = kafka.TopicPartition(topic, partition)
        return int(_ask(bootstrap, "list_partition_offsets", {where: time})[where].offset)

    def cluster(self, bootstrap: str) -> list[dict[str, object]]:
        described = _ask(bootstrap, "describe_cluster")
        return [
            {"id": each["broker_id"], "address": f"{each['host']}:{each['port']}"}
            for each in described["brokers"]
        ]

    def list_groups(self, bootstrap: str) -> dict[str, object]:
        return {each["group_id"]: {} for each in _ask(bootstrap, "list_groups")}

    def describe_group(self, bootstrap: str, group: str) -> dict[str, object]:
        described = _ask(bootstrap, "describe_groups", [group])[group]
        members = {
            each["member_id"]: [
                place(row["topic"], partition)
                for row in each["member_assignment"]["assigned_partitions"]
                for partition in row["partitions"]
            ]
            for each in described["members"]
        }
        return {"state": described["group_state"], "members": members}

    def delete_group(self, bootstrap: str, group: str) -> None:
        done = dict(_ask(bootstrap, "delete_groups", [group]))
        _check(done[group])

    def group_offsets(self, bootstrap: str, group: str) -> dict[str, Any]:
        offsets = _ask(bootstrap, "list_group_offsets", {group: None})[group]
        return {
            place(where.topic, where.partition): {
                "offset": each.offset,
                "metadata": each.metadata,
            }
            for where, each in offsets.items()
        }

    def alter_offsets(self, bootstrap: str, group: str, offsets: Mapping[str, Any]) -> None:
        wanted = {
            kafka.TopicPartition(*parse_place(where)): kafka.OffsetAndMetadata(
                each["offset"], each["metadata"], -1
            )
            for where, each in offsets.items()
        }
        for error in _ask(bootstrap, "alter_group_offsets", group, wanted).values():
            _check(error)

    def delete_offsets(self, bootstrap: str, group: str, topic: str, partition: int) -> None:
        wanted = [kafka.TopicPartition(topic, partition)]
        for error in _ask(bootstrap, "delete_group_offsets", group, wanted).values():
            _check(error)

    def log_dirs(self, bootstrap: str, broker: int) -> dict[str, int]:
        answers = _ask(bootstrap, "describe_log_dirs", brokers=[broker])
        return {
            place(topic["name"], partition["partition_index"]): partition["partition_size"]
            for answer in answers
            for folder in answer["log_dirs"]
            for topic in folder["topics"]
            for partition in topic["partitions"]
        }

    def producers(self, bootstrap: str, topic: str, partition: int) -> list[dict[str, int]]:
        where = kafka.TopicPartition(topic, partition)
        found = _ask(bootstrap, "describe_producers", [where])[where]
        return [
            {
                "producer": each.producer_id,
                "epoch": each.producer_epoch,
                "sequence": each.last_sequence,
            }
            for each in found.active_producers
        ]

    def transactions(self, bootstrap: str) -> list[str]:
        listed = _ask(bootstrap, "list_transactions")
        return [each.transactional_id for rows in listed.values() for each in rows]

    def elect_leader(self, bootstrap: str, topic: str, partition: int) -> None:
        _ask(bootstrap, "elect_leaders", 0, {topic: [partition]})

    def reassign(self, bootstrap: str, topic: str, partition: int, broker: int) -> None:
        wanted = {kafka.TopicPartition(topic, partition): [broker]}
        for error in _ask(bootstrap, "alter_partition_reassignments", wanted).values():
            _check(error)

    def list_reassignments(self, bootstrap: str, topic: str, partition: int) -> list[str]:
        asked = [kafka.TopicPartition(topic, partition)]
        found = _ask(bootstrap, "list_partition_reassignments", asked)
        return [place(where.topic, where.partition) for where in found]


def _check(error: Any) -> None:
    if error not in {None, kafka.errors.NoError, "OK"}:
        raise RuntimeError(repr(error))


def _configs(bootstrap: str, resource: Any) -> dict[str, str]:
    found = _ask(bootstrap, "describe_configs", [resource], config_filter="all")
    return {
        name: entry["value"]
        for resources in found.values()
        for entries in resources.values()
        for name, entry in entries.items()
    }
