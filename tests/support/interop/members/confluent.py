"""Groups of confluent-kafka, that is of librdkafka."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.interop.members.polling import Arrived, PollingMember, Sightings
from tests.support.interop.members.state import (
    AssignmentKind,
    InteropOffset,
    MemberSetup,
    parse_place,
    place,
)


class ConfluentGroups:
    name = "confluent-kafka"
    kinds = (
        AssignmentKind.RANGE,
        AssignmentKind.ROUND_ROBIN,
        AssignmentKind.COOPERATIVE,
        AssignmentKind.CONSUMER,
    )
    static_kinds = (AssignmentKind.RANGE, AssignmentKind.CONSUMER)

    def join(self, joining: MemberSetup) -> PollingMember:
        configs: dict[str, object] = {
            "bootstrap.servers": joining.bootstrap,
            "client.id": "confluent-member",
            "group.id": joining.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": joining.auto_commit,
        }
        if joining.kind is AssignmentKind.CONSUMER:
            configs["group.protocol"] = "consumer"
        else:
            configs["partition.assignment.strategy"] = str(joining.kind)
            configs["heartbeat.interval.ms"] = 500
        if joining.instance:
            configs["group.instance.id"] = joining.instance
        sightings = Sightings()
        return PollingMember(sightings, lambda: _Consumer(configs, joining.topic, sightings))


class _Consumer:
    def __init__(self, configs: dict[str, object], topic: str, sightings: Sightings) -> None:
        self._consumer = Consumer(configs)
        self._sightings = sightings

        def assigned(_: object, partitions: list[TopicPartition]) -> None:
            sightings.assign(_places(partitions))

        def revoked(_: object, partitions: list[TopicPartition]) -> None:
            sightings.revoke(_places(partitions))

        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self) -> list[Arrived]:
        messages: list[Any] = self._consumer.consume(500, timeout=0.05)
        good = []
        for message in messages:
            if message.error() is None:
                where = place(message.topic(), message.partition())
                good.append((where, message.offset(), (message.value() or b"").decode()))
            elif message.error().code() != KafkaError._PARTITION_EOF:
                self._sightings.error = str(message.error())
        return good

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        wanted = [
            TopicPartition(*parse_place(where), each.offset, each.metadata)
            for where, each in offsets.items()
        ]
        done = self._consumer.commit(offsets=wanted, asynchronous=False)
        assert all(each.error is None for each in done or []), done

    def close(self) -> None:
        self._consumer.close()


def _places(partitions: list[TopicPartition]) -> list[str]:
    return [place(each.topic, each.partition) for each in partitions]
