"""Reads the partitions of one Fetch request under one limit of bytes.

A read returns whole batches. So that a consumer always advances, the first partition with data may
exceed the limits by its first batch; the other partitions may not.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable
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
    """The result for one partition: its records, or Kafka's error code."""

    partition: FetchPartition
    read: Read
    code: int = 0
    stream: int | None = None
    preferred_replica: int | None = None
    """The broker in the client's rack that the client should fetch from."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How the partitions of one request are read."""

    max_bytes: int
    committed: bool
    """Whether the isolation level is ``read_committed``."""
    session: ClientSession
    zone: str | None = None
    """The client's zone: its rack, or the zone in its client id."""
    rack: str | None = None


def read_cached(
    services: Services, partitions: Iterable[FetchPartition], limits: FetchLimits
) -> list[FetchOutcome] | None:
    """Read all partitions from memory; None if one of them is not in memory."""
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
        outcome = _begin_read(services, topic, partition, left, limits)
        if not isinstance(outcome, FetchOutcome):
            _discard(outcome)
            return None
        left = _take_from_limit(outcome, left, first=first)
        first = first and not outcome.read.size
        outcomes.append(outcome)
    return outcomes


async def read_all(
    services: Services, partitions: Iterable[FetchPartition], limits: FetchLimits
) -> list[FetchOutcome]:
    """Read all partitions; records that are not in memory are read from the stores concurrently."""
    reads: list[FetchOutcome | Awaitable[Read]] = []
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
            begun = _begin_read(services, topic, partition, room, limits)
        except KafkaError as error:
            begun = FetchOutcome(partition, _NOTHING, error.code)
        planned += (
            begun.read.size if isinstance(begun, FetchOutcome) else min(room, partition.max_bytes)
        )
        reads.append(begun)
        topics.append(topic)
    pending = [read for read in reads if not isinstance(read, FetchOutcome)]
    results = iter(await gather_in_turns(pending, _read_or_error, TURN_ELEMENTS))
    left, first = limits.max_bytes, True
    outcomes = []
    async for partition, topic, read in in_turns(zip(asked, topics, reads, strict=True)):
        if isinstance(read, FetchOutcome):
            outcome = read
        else:
            assert topic is not None
            result = next(results)
            outcome = (
                FetchOutcome(partition, _NOTHING, result.code)
                if isinstance(result, KafkaError)
                else FetchOutcome(partition, result, 0, topic.streams[partition.partition])
            )
        left = _take_from_limit(outcome, left, first=first)
        first = first and not outcome.read.size
        outcomes.append(outcome)
    return outcomes


def _discard(read: Awaitable[Read]) -> None:
    """Close a coroutine, or cancel a future, that is not awaited."""
    if isinstance(read, Coroutine):
        read.close()
    elif isinstance(read, asyncio.Future):
        read.cancel()


async def _read_or_error(read: Awaitable[Read]) -> Read | KafkaError:
    try:
        return await read
    except KafkaError as error:
        return error


def _begin_read(
    services: Services, topic: Topic, partition: FetchPartition, left: int, limits: FetchLimits
) -> FetchOutcome | Awaitable[Read]:
    """The outcome if it is known at once; otherwise the read to wait for."""
    index = partition.partition
    try:
        check_leader_epoch(partition.leader_epoch, services.cluster.leader_epoch)
        preferred = preferred_read_replica(
            services, topic.streams[index], limits.rack, limits.session.listener
        )
        if preferred is not None:
            return FetchOutcome(partition, _NOTHING, 0, topic.streams[index], preferred)
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
    """Raises an error unless a client's leader epoch is current; -1 is no epoch (KIP-320)."""
    if asked < 0 or asked == current:
        return
    if asked < current:
        raise FencedLeaderEpoch(f"leader epoch {asked} is older than {current}")
    raise UnknownLeaderEpoch(f"leader epoch {asked} is newer than {current}")


def _take_from_limit(outcome: FetchOutcome, left: int, *, first: bool) -> int:
    """Subtract an outcome's size from the limit; records that do not fit are dropped from it,
    except those of the first partition with data.
    """
    read = outcome.read
    if not read.size:
        return left
    if not first and read.size > left:
        outcome.read = Read([], 0, read.offsets)
        return left
    return max(0, left - read.size)
