"""Groups: how fast a member consumes, how soon fifty are stable, how long 2,000 commits take.

Both servers let a first member begin at once (``group.initial.rebalance.delay.ms`` is 0), and
Kafka also computes assignments at once (``group.consumer.assignment.interval.ms`` is 0, by
default it gathers changes for a second): those waits would be all that is seen.
"""

import asyncio
import gc
import itertools
import statistics
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import uvloop

from bench.clients import consumer_performance
from bench.clients.members import (
    MeasuredClassicMember,
    MeasuredConsumerMember,
    MeasuredGroup,
    wait_for_coordinator,
)
from bench.clients.wire import BenchConnection, parse
from bench.harness import Bench, Figure, TurnSize
from bench.peer import HEADWATER, KAFKA, KAFKA_FLUSH, Peer
from bench.throughput import MB_PER_SECOND, PARTITIONS, load
from tests.support.broker.running import request_frame

MEMBERS = 50
SHARED_PARTITIONS = 100
COMMITTING_GROUPS = 2_000
JOINS_AT_ONCE = 50
OFFSET_COMMIT = 8
ENVIRONMENT = {"HEADWATER_GROUPS_INITIAL_REBALANCE_DELAY_MS": "0"}
PROPERTIES = {"group.consumer.assignment.interval.ms": "0"}
KINDS: Mapping[str, type[MeasuredClassicMember] | type[MeasuredConsumerMember]] = {
    "classic": MeasuredClassicMember,
    "consumer": MeasuredConsumerMember,
}
"""The group's type by Kafka's name, and its members."""

T = TypeVar("T")
numbers = itertools.count()


def consume_java(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    """A group of one Java member reads what was just written."""
    topic = peer.create_topic(PARTITIONS)
    load(peer, topic, size)
    rates = consumer_performance(peer.bootstrap, topic, _group_name(), size.records)
    peer.delete_topic(topic)
    return {"consume, Java": rates.whole, "consume, Java, joined": rates.joined}


def join(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    return {f"{name}, all join": seconds * 1e3 for name, (seconds, _) in _rebalances(peer).items()}


def leave(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    return {
        f"{name}, one leaves": seconds * 1e3 for name, (_, seconds) in _rebalances(peer).items()
    }


def _rebalances(peer: Peer) -> dict[str, tuple[float, float]]:
    """By kind of group: the seconds until all are stable, and again after one has left."""
    topic = peer.create_topic(SHARED_PARTITIONS)
    taken = {name: _run(_rebalance(peer, kind, topic)) for name, kind in KINDS.items()}
    peer.delete_topic(topic)
    return taken


async def _rebalance(
    peer: Peer, kind: type[MeasuredClassicMember] | type[MeasuredConsumerMember], topic: str
) -> tuple[float, float]:
    connections = [await BenchConnection.open(peer.bootstrap) for _ in range(MEMBERS)]
    group, name = MeasuredGroup(kind, SHARED_PARTITIONS), _group_name()
    try:
        await wait_for_coordinator(connections[0], name)
        return await group.join(connections, name, topic), await group.leave()
    finally:
        await group.close()
        for connection in connections:
            connection.close()


def commit(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    topic = peer.create_topic(PARTITIONS)
    values = _run(_commits(peer, topic, size.seconds))
    peer.delete_topic(topic)
    return values


async def _commits(peer: Peer, topic: str, seconds: float) -> dict[str, float]:
    """Groups of one member each, which commit once a second, evenly spread over it."""
    prefix = _group_name()
    first = await BenchConnection.open(peer.bootstrap)
    await wait_for_coordinator(first, prefix)
    first.close()
    ready: list[CommittingMember] = []
    for start in range(0, COMMITTING_GROUPS, JOINS_AT_ONCE):
        ready += await asyncio.gather(
            *(
                CommittingMember.join(peer.bootstrap, f"{prefix}-{number}", topic)
                for number in range(start, start + JOINS_AT_ONCE)
            )
        )
    writes = peer.metric("headwater_group_writes_total") if peer.name == HEADWATER else 0.0
    with _no_collections():
        began = time.perf_counter()
        rounds = int(seconds)
        await asyncio.gather(
            *(
                each.commit_each_second(began + place / len(ready), rounds)
                for place, each in enumerate(ready)
            )
        )
        took = time.perf_counter() - began
    if peer.name == HEADWATER:
        writes = peer.metric("headwater_group_writes_total") - writes
    times = sorted(time for each in ready for time in each.times)
    # Whoever only went away would be missed a minute later, in the middle of another round.
    for start in range(0, COMMITTING_GROUPS, JOINS_AT_ONCE):
        await asyncio.gather(*(each.leave() for each in ready[start : start + JOINS_AT_ONCE]))
    percentiles = statistics.quantiles(times, n=100)
    return {
        "commit p50": percentiles[49] * 1e3,
        "commit p99": percentiles[98] * 1e3,
        "commits": len(times) / took,
        "metadata transactions": writes / took,
    }


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep the collector of this process away: it would stop all clients for a tenth of a second.

    They would then send at once what they are late with, and one burst is all that p99 shows.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class CommittingMember:
    """One member that is a whole group; its requests are made beforehand."""

    def __init__(
        self, connection: BenchConnection, member: MeasuredClassicMember, topic: str, group: str
    ) -> None:
        self._connection = connection
        self._member = member
        self.times: list[float] = []
        """Of each commit, from before it was written to when its answer was read."""
        self._frames = [
            request_frame(
                OFFSET_COMMIT, 9, offset, group_id=group,
                generation_id_or_member_epoch=member.generation, member_id=member.member_id,
                group_instance_id=None,
                topics=[{"name": topic, "partitions": [
                    {"partition_index": 0, "committed_offset": offset,
                     "committed_leader_epoch": -1, "committed_metadata": ""}]}],
            )
            for offset in range(2)
        ]  # fmt: skip

    @classmethod
    async def join(cls, bootstrap: str, group: str, topic: str) -> "CommittingMember":
        connection = await BenchConnection.open(bootstrap)
        member = MeasuredClassicMember(connection, group, topic, PARTITIONS)
        await member.join()
        return cls(connection, member, topic, group)

    async def commit_each_second(self, start: float, rounds: int) -> None:
        for number in range(rounds):
            await asyncio.sleep(start + number - time.perf_counter())
            sent = time.perf_counter()
            answer, received = await self._connection.send(self._frames[number % 2])
            self.times.append(received - sent)
            (partition,) = parse(OFFSET_COMMIT, 9, answer).topics[0].partitions
            if partition.error_code:
                raise RuntimeError(f"a commit was answered with error {partition.error_code}")

    async def leave(self) -> None:
        await self._member.leave()
        self._connection.close()


def _group_name() -> str:
    return f"bench-group-{next(numbers)}"


def _run(work: Coroutine[None, None, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


BENCHES = (
    Bench(
        "consume-java",
        "Consume throughput, Kafka's ConsumerPerformance in a group",
        (
            Figure("consume, Java", MB_PER_SECOND, "more", 1.0),
            Figure("consume, Java, joined", MB_PER_SECOND, "more", 1.0),
        ),
        consume_java,
        environment=ENVIRONMENT,
    ),
    Bench(
        "groups-join",
        f"{MEMBERS} members join one group at once, until all are stable",
        tuple(Figure(f"{name}, all join", "ms", "less", 1.5) for name in KINDS),
        join,
        environment=ENVIRONMENT,
        properties=PROPERTIES,
    ),
    Bench(
        "groups-leave",
        f"One of {MEMBERS} members leaves, until all others are stable",
        tuple(Figure(f"{name}, one leaves", "ms", "less", 1.5) for name in KINDS),
        leave,
        environment=ENVIRONMENT,
        properties=PROPERTIES,
    ),
    Bench(
        "groups-commit",
        f"{COMMITTING_GROUPS:,} groups commit once a second",
        (
            Figure("commit p50", "ms", "less"),
            Figure("commit p99", "ms", "less", 2.0),
            Figure("commits", "1/s", "more"),
            Figure("metadata transactions", "1/s", "less", None, None),
        ),
        commit,
        # Kafka answers before its disk has the commit; the last is Kafka with Headwater's care.
        peers=(HEADWATER, KAFKA, KAFKA_FLUSH),
        environment=ENVIRONMENT,
    ),
)
