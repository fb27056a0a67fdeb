"""The plan of ``headwater group reset``: rules, partitions and new offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from headwater.cli.client import REQUEST_TIMEOUT, describe
from headwater.cli.group.facts import TopicPartitionKey, list_offsets

MAX_NAMED = 5
"""Maximum partitions that are named in one line."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class ToEarliest:
    pass


@dataclass(frozen=True, slots=True)
class ToLatest:
    pass


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record at or after ``timestamp``, in epoch milliseconds."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    count: int


Rule = ToOffset | ToEarliest | ToLatest | ToTime | ShiftBy


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """The first offset and the end of a partition, and the offset for a rule by time."""

    earliest: int
    latest: int
    at_time: int | None = None
    """None for other rules, or if every record is older."""


@dataclass(frozen=True, slots=True)
class Move:
    """The planned change of one partition's committed offset."""

    topic: str
    partition: int
    current: int | None
    asked: int
    new: int
    """The requested offset, or the nearest one in range."""
    latest: int

    @property
    def lag(self) -> int:
        """Offsets left to consume after the reset."""
        return self.latest - self.new

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "current": self.current,
            "asked": self.asked,
            "new": self.new,
            "lag": self.lag,
        }


def plan(
    rule: Rule,
    committed: Mapping[TopicPartitionKey, int],
    bounds: Mapping[TopicPartitionKey, OffsetBounds],
) -> list[Move]:
    """A move for each partition. An offset out of range becomes the nearest one in range.

    >>> plan(ShiftBy(-5), {("t", 0): 3}, {("t", 0): OffsetBounds(0, 9)})
    [Move(topic='t', partition=0, current=3, asked=-2, new=0, latest=9)]
    """
    moves = []
    for partition, where in sorted(bounds.items()):
        current = committed.get(partition)
        wanted = _wanted(rule, partition, current, where)
        new = min(max(wanted, where.earliest), where.latest)
        moves.append(Move(*partition, current=current, asked=wanted, new=new, latest=where.latest))
    return moves


def out_of_range_note(moves: Sequence[Move]) -> str | None:
    """A note about requested offsets that are out of range; None if there are none.

    >>> out_of_range_note([Move("t", 0, current=3, asked=-2, new=0, latest=9)])
    'Out of range, so the nearest offset is used: t:0 (0 for -2)'
    """
    outside = [
        f"{each.topic}:{each.partition} ({each.new} for {each.asked})"
        for each in moves
        if each.new != each.asked
    ]
    if not outside:
        return None
    more = f" and {len(outside) - MAX_NAMED} more" if len(outside) > MAX_NAMED else ""
    return f"Out of range, so the nearest offset is used: {', '.join(outside[:MAX_NAMED])}{more}"


def _wanted(
    rule: Rule, partition: TopicPartitionKey, current: int | None, where: OffsetBounds
) -> int:
    match rule:
        case ToOffset(offset):
            return offset
        case ToEarliest():
            return where.earliest
        case ToLatest():
            return where.latest
        case ToTime():
            return where.latest if where.at_time is None else where.at_time
        case ShiftBy(count):
            if current is None:
                raise click.ClickException(
                    f"{partition[0]}:{partition[1]} has no committed offset to shift by {count}"
                )
            return current + count


def choose(
    admin: Any, topics: Sequence[tuple[str, frozenset[int]]], committed: Iterable[TopicPartitionKey]
) -> list[TopicPartitionKey]:
    """The partitions to reset: those of ``topics``, or all committed ones if none are given."""
    if not topics:
        return sorted(committed)
    known = admin.list_topics(timeout=REQUEST_TIMEOUT).topics
    chosen: set[TopicPartitionKey] = set()
    for name, partitions in topics:
        if name not in known:
            raise click.ClickException(f"topic {name} does not exist")
        if known[name].error is not None:
            raise click.ClickException(f"{name}: {describe(known[name].error)}")
        there = set(known[name].partitions)
        if absent := partitions - there:
            raise click.ClickException(
                f"topic {name} has no partition {min(absent)}; it has partitions 0 to {max(there)}"
            )
        chosen |= {(name, partition) for partition in partitions or there}
    return sorted(chosen)


def read_bounds(
    admin: Any, rule: Rule, partitions: Sequence[TopicPartitionKey]
) -> dict[TopicPartitionKey, OffsetBounds]:
    """The bounds of each partition that exists."""
    from confluent_kafka.admin import OffsetSpec

    earliest = list_offsets(admin, partitions, OffsetSpec.earliest())
    latest = list_offsets(admin, partitions, OffsetSpec.latest())
    at_time: dict[TopicPartitionKey, int] = {}
    if isinstance(rule, ToTime):
        at_time = list_offsets(admin, partitions, OffsetSpec.for_timestamp(rule.timestamp))
    return {
        partition: OffsetBounds(
            earliest[partition],
            latest[partition],
            found if (found := at_time.get(partition, -1)) >= 0 else None,
        )
        for partition in partitions
        if partition in earliest and partition in latest
    }


def commit(admin: Any, group: str, moves: Sequence[Move]) -> None:
    """Commit the new offsets. Raises ``ClickException`` if the broker refuses any of them."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition(move.topic, move.partition, move.new) for move in moves]
    )
    future = admin.alter_consumer_group_offsets([request], request_timeout=REQUEST_TIMEOUT)[group]
    refused = [each for each in future.result().topic_partitions if each.error is not None]
    if not refused:
        return
    if refused[0].error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
        raise click.ClickException(f"group {group} has members by now; nothing was changed")
    raise click.ClickException(
        "; ".join(f"{each.topic}:{each.partition}: {describe(each.error)}" for each in refused)
    )
