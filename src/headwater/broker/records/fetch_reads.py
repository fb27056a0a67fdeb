"""Reading for one Fetch: many partitions under one limit of bytes.

Whole batches only, at least one batch in the answer wherever there is any: the first partition
with data may exceed the limits by its first batch, the ones after it may not.
"""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Final

from headwater.broker.authorizer import Operation
from headwater.broker.cluster.ownership import check_served_here, preferred_read_replica
from headwater.broker.network.client_session import ClientSession
from headwater.broker.records.fetch_sessions import FetchPartition
from headwater.broker.services import Services
from headwater.engine import Offsets, Read, Topic
from headwater.errors import (
    FencedLeaderEpoch,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
)
from headwater.work_budget import TURN_ELEMENTS, gather_in_turns, in_turns

_UNKNOWN: Final = Offsets(-1, -1, -1)
_NOTHING: Final = Read([], 0, _UNKNOWN)


@dataclass(slots=True)
class FetchOutcome:
    """What became of one partition: its records, or Kafka's error code."""

    partition: FetchPartition
    read: Read
    code: int = 0
    stream: int | None = None
    nearer: int | None = None
    """The broker of the client's rack, which it is told to fetch from."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a request allows."""

    max_bytes: int
    committed: bool
    session: ClientSession
    zone: str | None = None
    """Where the client is, by its rack or its id."""
    rack: str | None = None


def read_cached(
    services: Services, partitions: Iterable[FetchPartition], limits: FetchLimits
) -> list[FetchOutcome] | None:
    """The answer where memory holds all of it, or None."""
    left, first = limits.max_bytes, True
    cached, session = services.topics.cached, limits.session
    outcomes = []
    for partition in partitions:
        try:
            topic = cached(session, partition.topic, partition.partition, Operation.READ)
        except TopicAuthorizationFailed:
            return None
        if topic is None:
            return None
        outcome = _start(services, topic, partition, left, limits)
        if not isinstance(outcome, FetchOutcome):
            close = getattr(outcome, "close", None) or getattr(outcome, "cancel", None)
            if close is not None:
                close()
            return None
        left = _account(outcome, left, first=first)
        first = first and not outcome.read.size
        outcomes.append(outcome)
    return outcomes


async def read_all(
    services: Services, partitions: Iterable[FetchPartition], limits: FetchLimits
) -> list[FetchOutcome]:
    """The same, waiting for what must be fetched from the stores; those reads run together."""
    slots: list[FetchOutcome | Awaitable[Read]] = []
    asked = list(partitions)
    topics: list[Topic | None] = []
    planned = 0
    async for partition in in_turns(asked):
        topic = None
        room = max(0, limits.max_bytes - planned)
        try:
            topic = await services.topics.resolve(
                limits.session, partition.topic, partition.partition, Operation.READ
            )
            started = _start(services, topic, partition, room, limits)
        except KafkaError as error:
            started = FetchOutcome(partition, _NOTHING, error.code)
        planned += (
            started.read.size
            if isinstance(started, FetchOutcome)
            else min(room, partition.max_bytes)
        )
        slots.append(started)
        topics.append(topic)
    waiting = [slot for slot in slots if not isinstance(slot, FetchOutcome)]
    settled = iter(await gather_in_turns(waiting, _settle, TURN_ELEMENTS))
    left, first = limits.max_bytes, True
    outcomes = []
    async for partition, topic, slot in in_turns(zip(asked, topics, slots, strict=True)):
        if isinstance(slot, FetchOutcome):
            outcome = slot
        else:
            assert topic is not None
            result = next(settled)
            outcome = (
                FetchOutcome(partition, _NOTHING, result.code)
                if isinstance(result, KafkaError)
                else FetchOutcome(partition, result, 0, topic.streams[partition.partition])
            )
        left = _account(outcome, left, first=first)
        first = first and not outcome.read.size
        outcomes.append(outcome)
    return outcomes


async def _settle(reading: Awaitable[Read]) -> Read | KafkaError:
    try:
        return await reading
    except KafkaError as error:
        return error


def _start(
    services: Services, topic: Topic, partition: FetchPartition, left: int, limits: FetchLimits
) -> FetchOutcome | Awaitable[Read]:
    index = partition.partition
    try:
        check_leader_epoch(partition.leader_epoch, services.cluster.leader_epoch)
        nearer = preferred_read_replica(
            services, topic.streams[index], limits.rack, limits.session.listener
        )
        if nearer is not None:
            return FetchOutcome(partition, _NOTHING, 0, topic.streams[index], nearer)
        check_served_here(services, topic.streams[index], limits.zone, limits.session.listener)
        read = services.engine.read(
            topic,
            index,
            partition.offset,
            min(left, max(0, partition.max_bytes)),
            committed=limits.committed,
        )
    except KafkaError as error:
        return FetchOutcome(partition, _NOTHING, error.code)
    if isinstance(read, Read):
        return FetchOutcome(partition, read, 0, topic.streams[index])
    return read


def check_leader_epoch(asked: int, current: int) -> None:
    """A client may say which leader epoch it knows (KIP-320); -1 says nothing."""
    if asked < 0 or asked == current:
        return
    if asked < current:
        raise FencedLeaderEpoch(f"leader epoch {asked} is older than {current}")
    raise UnknownLeaderEpoch(f"leader epoch {asked} is newer than {current}")


def _account(outcome: FetchOutcome, left: int, *, first: bool) -> int:
    """Take an outcome's size off the limit; what does not fit behind the first is left out."""
    read = outcome.read
    if not read.size:
        return left
    if not first and read.size > left:
        outcome.read = Read([], 0, read.offsets)
        return left
    return max(0, left - read.size)
