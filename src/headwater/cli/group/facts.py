"""Groups with their members, offsets and lag, read in a few requests for all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from headwater.cli.client import REQUEST_TIMEOUT, describe

TopicPartitionKey = tuple[str, int]
"""A topic and one of its partitions."""

STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}
"""librdkafka's names for states, and Kafka's own."""

TYPES = {"CLASSIC": "classic", "CONSUMER": "consumer"}


@dataclass(frozen=True, slots=True)
class MemberFacts:
    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[TopicPartitionKey, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A partition that is assigned to a member or has a committed offset."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    """None if the topic does not exist."""
    member: MemberFacts | None

    @property
    def lag(self) -> int | None:
        """Offsets left to consume; None without a committed offset."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    name: str
    type: str
    state: str
    assignor: str | None
    coordinator: str
    members: tuple[MemberFacts, ...]
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        """The sum over all partitions with a committed offset."""
        return sum(each.lag or 0 for each in self.partitions)

    def as_json(self) -> dict[str, object]:
        return {
            "group": self.name,
            "type": self.type,
            "state": self.state,
            "assignor": self.assignor,
            "coordinator": self.coordinator,
            "lag": self.lag,
            "members": [
                asdict(each)
                | {"partitions": [{"topic": t, "partition": p} for t, p in each.partitions]}
                for each in self.members
            ],
            "partitions": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "committed": each.committed,
                    "end": each.end,
                    "lag": each.lag,
                    "member": each.member and each.member.id,
                    "client": each.member and each.member.client,
                    "host": each.member and each.member.host,
                }
                for each in self.partitions
            ],
        }


def read_groups(admin: Any, names: Sequence[str]) -> list[GroupFacts]:
    """The groups in the order of ``names``. Raises ``ClickException`` for a missing one."""
    described = {
        name: _existing(name, found) for name, found in describe_groups(admin, names).items()
    }
    members = {name: _members(found) for name, found in described.items()}
    committed = {name: committed_offsets(admin, name) for name in described}
    owned = {place for each in members.values() for one in each for place in one.partitions}
    ends = end_offsets(admin, owned.union(*committed.values()))
    return [
        GroupFacts(
            name=name,
            type=type_name(found),
            state=state_name(found),
            assignor=found.partition_assignor or None,
            coordinator=f"{found.coordinator.host}:{found.coordinator.port}",
            members=members[name],
            partitions=_lags(members[name], committed[name], ends),
        )
        for name, found in described.items()
    ]


def describe_groups(admin: Any, names: Sequence[str]) -> dict[str, Any]:
    """A description of each group as librdkafka gives it; None for one that does not exist."""
    from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

    wanted = list(dict.fromkeys(names))
    futures = admin.describe_consumer_groups(wanted, request_timeout=REQUEST_TIMEOUT)
    described: dict[str, Any] = {}
    for name in wanted:
        try:
            found = futures[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise click.ClickException(f"{name}: {describe(error.args[0])}") from error
            found = None
        dead = found is not None and found.state == ConsumerGroupState.DEAD
        described[name] = None if dead else found
    return described


def committed_offsets(admin: Any, name: str) -> dict[TopicPartitionKey, int]:
    """Every offset that a group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    future = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_TIMEOUT
    )[name]
    try:
        found = future.result().topic_partitions
    except KafkaException as error:
        raise click.ClickException(f"{name}: {describe(error.args[0])}") from error
    return {
        (each.topic, each.partition): each.offset
        for each in found
        if each.error is None and each.offset >= 0
    }


def end_offsets(admin: Any, places: Iterable[TopicPartitionKey]) -> dict[TopicPartitionKey, int]:
    """The end of each partition that exists."""
    from confluent_kafka.admin import OffsetSpec

    return list_offsets(admin, places, OffsetSpec.latest())


def list_offsets(
    admin: Any, places: Iterable[TopicPartitionKey], spec: Any
) -> dict[TopicPartitionKey, int]:
    """The offset of ``spec`` in each partition that exists, in one request per broker."""
    from confluent_kafka import TopicPartition

    topics = admin.list_topics(timeout=REQUEST_TIMEOUT).topics
    asked = {
        TopicPartition(topic, partition): spec
        for topic, partition in sorted(places)
        if topic in topics and partition in topics[topic].partitions
    }
    if not asked:  # librdkafka refuses an empty request
        return {}
    futures = admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT)
    return {
        (place.topic, place.partition): future.result().offset for place, future in futures.items()
    }


def state_name(found: Any) -> str:
    """Kafka's name for a group's state.

    librdkafka has no names for the two states of the new protocol. Assigning ends within one call
    of the coordinator, so an unknown state is Reconciling.
    """
    return STATES.get(found.state.name, "Reconciling")


def type_name(found: Any) -> str:
    return TYPES.get(found.type.name, "unknown")


def _existing(name: str, found: Any) -> Any:
    """The description of an existing group. Raises ``ClickException`` if it is None."""
    if found is None:
        raise click.ClickException(
            f"group {name} does not exist; `headwater group list` shows those that do"
        )
    return found


def _members(found: Any) -> tuple[MemberFacts, ...]:
    members = (
        MemberFacts(
            id=each.member_id,
            instance=each.group_instance_id or None,
            client=each.client_id,
            host=each.host.removeprefix("/"),
            partitions=tuple(
                sorted((one.topic, one.partition) for one in each.assignment.topic_partitions)
            ),
        )
        for each in found.members
    )
    return tuple(sorted(members, key=lambda each: (each.client, each.id)))


def _lags(
    members: Sequence[MemberFacts],
    committed: Mapping[TopicPartitionKey, int],
    ends: Mapping[TopicPartitionKey, int],
) -> tuple[PartitionLag, ...]:
    owners = {place: member for member in members for place in member.partitions}
    return tuple(
        PartitionLag(
            *place,
            committed=committed.get(place),
            end=ends.get(place),
            member=owners.get(place),
        )
        for place in sorted({*owners, *committed})
    )
