"""aiokafka's admin client, with the offsets that its consumer finds."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from tests.support.interop.admin.methods import Methods
from tests.support.interop.members.state import place


def _ask(bootstrap: str, call: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


class AiokafkaAdmin(Methods):
    name = "aiokafka"

    def create_topic(
        self, bootstrap: str, topic: str, partitions: int, configs: Mapping[str, str]
    ) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=dict(configs))
        answer = _ask(bootstrap, lambda admin: admin.create_topics([new]))
        assert [each[1] for each in answer.topic_errors] == [0], answer

    def grow_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        wanted = {topic: NewPartitions(total_count=partitions)}
        _ask(bootstrap, lambda admin: admin.create_partitions(wanted))

    def count_partitions(self, bootstrap: str, topic: str) -> int:
        described = _ask(bootstrap, lambda admin: admin.describe_topics([topic]))
        return len(described[0]["partitions"])

    def list_topics(self, bootstrap: str) -> list[str]:
        return list(_ask(bootstrap, lambda admin: admin.list_topics()))

    def delete_topic(self, bootstrap: str, topic: str) -> None:
        _ask(bootstrap, lambda admin: admin.delete_topics([topic]))

    def describe_configs(self, bootstrap: str, topic: str) -> dict[str, str]:
        return _configs(bootstrap, ConfigResource(ConfigResourceType.TOPIC, topic))

    def broker_configs(self, bootstrap: str, broker: int) -> dict[str, str]:
        return _configs(bootstrap, ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def alter_configs(self, bootstrap: str, topic: str, configs: Mapping[str, str]) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        _ask(bootstrap, lambda admin: admin.alter_configs([wanted]))

    def delete_records(self, bootstrap: str, topic: str, partition: int, offset: int) -> int:
        where = TopicPartition(topic, partition)
        wanted = {where: RecordsToDelete(before_offset=offset)}
        return int(_ask(bootstrap, lambda admin: admin.delete_records(wanted))[where])

    def find_offset(self, bootstrap: str, topic: str, partition: int, time: int) -> int:
        where = TopicPartition(topic, partition)

        async def find() -> int:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                if time == -1:
                    return int((await consumer.end_offsets([where]))[where])
                if time == -2:
                    return int((await consumer.beginning_offsets([where]))[where])
                return int((await consumer.offsets_for_times({where: time}))[where].offset)
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(find(), 60))

    def cluster(self, bootstrap: str) -> list[dict[str, object]]:
        described = _ask(bootstrap, lambda admin: admin.describe_cluster())
        return [
            {"id": each["node_id"], "address": f"{each['host']}:{each['port']}"}
            for each in described["brokers"]
        ]

    def list_groups(self, bootstrap: str) -> dict[str, object]:
        return {name: {} for name, *_ in _ask(bootstrap, lambda it: it.list_consumer_groups())}

    def describe_group(self, bootstrap: str, group: str) -> dict[str, object]:
        (answer,) = _ask(bootstrap, lambda admin: admin.describe_consumer_groups([group]))
        error, _, state, _, _, members, *_ = answer.groups[0]
        assert error == 0, answer
        assigned = {}
        for name, *_, assignment in members:
            decoded = ConsumerProtocolMemberAssignment.decode(assignment)
            assigned[name] = [
                place(topic, partition)
                for topic, partitions in decoded.assignment
                for partition in partitions
            ]
        return {"state": state, "members": assigned}

    def group_offsets(self, bootstrap: str, group: str) -> dict[str, Any]:
        offsets = _ask(bootstrap, lambda admin: admin.list_consumer_group_offsets(group))
        return {
            place(where.topic, where.partition): {
                "offset": each.offset,
                "metadata": each.metadata,
            }
            for where, each in offsets.items()
        }


def _configs(bootstrap: str, resource: ConfigResource) -> dict[str, str]:
    (answer,) = _ask(bootstrap, lambda admin: admin.describe_configs([resource]))
    return {row[0]: row[1] for row in answer.resources[0][4]}
