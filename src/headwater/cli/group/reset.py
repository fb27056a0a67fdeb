"""Where ``headwater group reset`` moves a group: the rule, the partitions, and the plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from headwater.cli.client import REQUEST_TIMEOUT, describe
from headwater.cli.group.facts import Place, list_offsets

MOST_NAMED = 5
"""Partitions in one line."""


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
    """The first record that is not older than ``timestamp``, in milliseconds of the epoch."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    count: int


Rule = ToOffset | ToEarliest | ToLatest | ToTime | ShiftBy


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """Where a partition begins and ends, and what a rule by time finds in it."""

    earliest: int
    latest: int
    at_time: int | None = None
    """None where the rule is another, or no record is as late."""


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's step of the plan."""

    topic: str
    partition: int
    current: int | None
    asked: int
    new: int
    """What was asked for, or the nearest that there is."""
    latest: int

    @property
    def lag(self) -> int:
        """What is left to consume after the move."""
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
    rule: Rule, committed: Mapping[Place, int], bounds: Mapping[Place, OffsetBounds]
) -> list[Move]:
    """A move for each partition in ``bounds``; an offset outside of them becomes the nearest.

    >>> plan(ShiftBy(-5), {("t", 0): 3}, {("t", 0): OffsetBounds(0, 9)})
    [Move(topic='t', partition=0, current=3, asked=-2, new=0, latest=9)]
    """
    moves = []
    for place, where in sorted(bounds.items()):
        current = committed.get(place)
        wanted = _wanted(rule, place, current, where)
        new = min(max(wanted, where.earliest), where.latest)
        moves.append(Move(*place, current=current, asked=wanted, new=new, latest=where.latest))
    return moves


def spelt_outside(moves: Sequence[Move]) -> str | None:
    """What is said of offsets that were asked for and do not exist; None where all do.

    >>> spelt_outside([Move("t", 0, current=3, asked=-2, new=0, latest=9)])
    'Outside of the partition, so the nearest is taken: t:0 (0 for -2)'
    """
    outside = [
        f"{each.topic}:{each.partition} ({each.new} for {each.asked})"
        for each in moves
        if each.new != each.asked
    ]
    if not outside:
        return None
    more = f" and {len(outside) - MOST_NAMED} more" if len(outside) > MOST_NAMED else ""
    return (
        "Outside of the partition, so the nearest is taken: "
        f"{', '.join(outside[:MOST_NAMED])}{more}"
    )


def _wanted(rule: Rule, place: Place, current: int | None, where: OffsetBounds) -> int:
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
                    f"{place[0]}:{place[1]} has no committed offset to shift by {count}"
                )
            return current + count


def choose(
    admin: Any, topics: Sequence[tuple[str, frozenset[int]]], committed: Iterable[Place]
) -> list[Place]:
    """The partitions to move: of ``topics`` (none named: all of each), else all committed ones."""
    if not topics:
        return sorted(committed)
    known = admin.list_topics(timeout=REQUEST_TIMEOUT).topics
    chosen: set[Place] = set()
    for name, partitions in topics:
        if name not in known:
            raise click.ClickException(f"topic {name} does not exist")
        if known[name].error is not None:
            raise click.ClickException(f"{name}: {describe(known[name].error)}")
        there = set(known[name].partitions)
        if absent := partitions - there:
            raise click.ClickException(
                f"topic {name} has no partition {min(absent)}; it has 0 to {max(there)}"
            )
        chosen |= {(name, partition) for partition in partitions or there}
    return sorted(chosen)


def read_bounds(admin: Any, rule: Rule, places: Sequence[Place]) -> dict[Place, OffsetBounds]:
    """Each partition's bounds; those of topics that are gone are left out."""
    from confluent_kafka.admin import OffsetSpec

    earliest = list_offsets(admin, places, OffsetSpec.earliest())
    latest = list_offsets(admin, places, OffsetSpec.latest())
    at_time: dict[Place, int] = {}
    if isinstance(rule, ToTime):
        at_time = list_offsets(admin, places, OffsetSpec.for_timestamp(rule.timestamp))
    return {
        place: OffsetBounds(
            earliest[place],
            latest[place],
            found if (found := at_time.get(place, -1)) >= 0 else None,
        )
        for place in places
        if place in earliest and place in latest
    }


def commit(admin: Any, group: str, moves: Sequence[Move]) -> None:
    """Write the plan; raises with one line where the broker refuses any of it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition(move.topic, move.partition, move.new) for move in moves]
    )
    future = admin.alter_consumer_group_offsets([request], request_timeout=REQUEST_TIMEOUT)[group]
    refused = [each for each in future.result().topic_partitions if each.error is not None]
    if not refused:
        return
    if refused[0].error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
        raise click.ClickException(f"group {group} got members meanwhile; nothing was changed")
    raise click.ClickException(
        "; ".join(f"{each.topic}:{each.partition}: {describe(each.error)}" for each in refused)
    )
