"""Groups of aiokafka, each member with an event loop in its thread."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.support.interop.members.polling import Arrived, PollingMember, Sightings, python_configs
from tests.support.interop.members.state import (
    AssignmentKind,
    InteropOffset,
    MemberSetup,
    parse_place,
    place,
)

ASSIGNORS = {
    AssignmentKind.RANGE: RangePartitionAssignor,
    AssignmentKind.ROUND_ROBIN: RoundRobinPartitionAssignor,
    AssignmentKind.STICKY: StickyPartitionAssignor,
}


class AiokafkaGroups:
    name = "aiokafka"
    kinds = (AssignmentKind.ROUND_ROBIN, AssignmentKind.RANGE, AssignmentKind.STICKY)
    static_kinds = (AssignmentKind.ROUND_ROBIN,)

    def join(self, joining: MemberSetup) -> PollingMember:
        configs = python_configs(self.name, joining, ASSIGNORS[joining.kind])
        sightings = Sightings()
        return PollingMember(sightings, lambda: _Consumer(configs, joining.topic, sightings))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._sightings.assign(_places(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._sightings.revoke(_places(revoked))


class _Consumer:
    def __init__(self, configs: dict[str, object], topic: str, sightings: Sightings) -> None:
        self._runner = asyncio.Runner()
        self._sightings = sightings
        self._consumer = self._runner.run(self._start(configs, topic))

    async def _start(self, configs: dict[str, object], topic: str) -> Any:
        consumer = AIOKafkaConsumer(**configs)
        consumer.subscribe([topic], listener=_Listener(self._sightings))
        await consumer.start()
        return consumer

    def poll(self) -> list[Arrived]:
        came = self._runner.run(self._consumer.getmany(timeout_ms=50))
        return [
            (place(each.topic, each.partition), each.offset, each.value.decode())
            for records in came.values()
            for each in records
        ]

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        wanted = {
            TopicPartition(*parse_place(where)): (each.offset, each.metadata)
            for where, each in offsets.items()
        }
        self._runner.run(self._consumer.commit(wanted))

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


def _places(partitions: Iterable[Any]) -> list[str]:
    return [place(each.topic, each.partition) for each in partitions]
