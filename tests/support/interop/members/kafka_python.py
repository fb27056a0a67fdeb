"""Groups of kafka-python."""

from collections.abc import Iterable, Mapping
from typing import Any

import kafka
import kafka.coordinator.assignors.cooperative_sticky as cooperative
import kafka.coordinator.assignors.range as in_ranges
import kafka.coordinator.assignors.roundrobin as in_turn
import kafka.coordinator.assignors.sticky.sticky_assignor as sticky

from tests.support.interop.members.polling import Arrived, PollingMember, Sightings, python_configs
from tests.support.interop.members.state import (
    AssignmentKind,
    InteropOffset,
    MemberSetup,
    parse_place,
    place,
)

ASSIGNORS = {
    AssignmentKind.RANGE: in_ranges.RangePartitionAssignor,
    AssignmentKind.ROUND_ROBIN: in_turn.RoundRobinPartitionAssignor,
    AssignmentKind.STICKY: sticky.StickyPartitionAssignor,
    AssignmentKind.COOPERATIVE: cooperative.CooperativeStickyAssignor,
}


class KafkaPythonGroups:
    name = "kafka-python"
    kinds = tuple(ASSIGNORS)
    static_kinds = (AssignmentKind.RANGE,)

    def join(self, joining: MemberSetup) -> PollingMember:
        configs = python_configs(self.name, joining, ASSIGNORS[joining.kind])
        sightings = Sightings()
        return PollingMember(sightings, lambda: _Consumer(configs, joining.topic, sightings))


class _Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._sightings.assign(_places(assigned))

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._sightings.revoke(_places(revoked))


class _Consumer:
    def __init__(self, configs: dict[str, object], topic: str, sightings: Sightings) -> None:
        self._consumer = kafka.KafkaConsumer(**configs)
        self._consumer.subscribe([topic], listener=_Listener(sightings))

    def poll(self) -> list[Arrived]:
        came = self._consumer.poll(timeout_ms=50)
        return [
            (place(each.topic, each.partition), each.offset, each.value.decode())
            for records in came.values()
            for each in records
        ]

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        self._consumer.commit(
            {
                kafka.TopicPartition(*parse_place(where)): kafka.OffsetAndMetadata(
                    each.offset, each.metadata, -1
                )
                for where, each in offsets.items()
            }
        )

    def close(self) -> None:
        self._consumer.close()


def _places(partitions: Iterable[Any]) -> list[str]:
    return [place(each.topic, each.partition) for each in partitions]
