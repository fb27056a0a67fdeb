"""Shards of another kind of state, beside those of groups, move between brokers complete."""

import asyncio
from collections import Counter
from random import Random

import pytest

from headwater.coordination.leases import Lease
from headwater.errors import CoordinatorNotAvailable, NotCoordinator
from headwater.groups.group import GROUPS
from headwater.meta.memory import MemoryStore
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import Writes
from headwater.meta.values import decode, encode
from tests.support.coordination.tallies import TALLIES, Tallies, records
from tests.support.groups.cluster import CoordinatorCluster, Node, committing, simulated
from tests.support.meta.faulty import FaultyStore

NAMES = [f"n{number}" for number in range(20)]


async def broker(cluster: CoordinatorCluster, node_id: int) -> tuple[Node, Tallies]:
    """A broker that owns shards of both kinds, on one session."""
    meta = FaultyStore(MemoryStore(database=cluster.database), Random(node_id))
    node = await cluster.node(node_id, meta)
    tallies = Tallies(meta, node.member, f"{node_id}-{id(node):x}")
    tallies.start()
    return node, tallies


def faults(node: Node, *, lost: float, unavailable: float) -> None:
    assert isinstance(node.meta, FaultyStore)
    node.meta.faults.lost_answer = node.meta.faults.lost_request = lost
    node.meta.faults.unavailable = unavailable


def owners(cluster: CoordinatorCluster) -> dict[int, int]:
    """The brokers that hold the leases of tallies, by shard, as the store has them."""
    return {
        number: decode(Lease, entry.value).broker
        for number in range(TALLIES.count)
        if (entry := cluster.database.entries.get(TALLIES.lease_key(number))) is not None
    }


def placed(cluster: CoordinatorCluster) -> dict[int, int]:
    """The brokers that should hold them."""
    return {number: cluster.brokers.chosen(number) for number in range(TALLIES.count)}


class TallyClient:
    """Adds to tallies at their coordinator, and remembers the answers."""

    def __init__(self, tallies: dict[int, Tallies]) -> None:
        self.tallies = tallies
        self.told: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.answered_by: Counter[int] = Counter()

    def coordinator(self, name: str) -> int:
        return next(iter(self.tallies.values())).owner.coordinator(name)

    async def add(self, name: str) -> None:
        while True:
            where = self.coordinator(name)
            if where in self.tallies:
                self.tried[name] += 1
                try:
                    value = await self.tallies[where].add(name)
                except (NotCoordinator, CoordinatorNotAvailable):
                    pass
                else:
                    assert value > self.told[name], "an acknowledged addition was lost"
                    self.told[name] = value
                    self.answered_by[where] += 1
                    return
            await asyncio.sleep(0.2)

    async def keep_adding(self, name: str, times: int) -> None:
        for _ in range(times):
            await self.add(name)
            await asyncio.sleep(1)

    async def check(self) -> None:
        for name in NAMES:
            found = await self.tallies[self.coordinator(name)].read(name)
            assert self.told[name] <= found <= self.tried[name]


@simulated
async def test_shards_of_another_kind_have_their_own_leases_and_count(
    cluster: CoordinatorCluster,
) -> None:
    node, tallies = await broker(cluster, 1)
    await asyncio.sleep(2)
    assert owners(cluster) == dict.fromkeys(range(TALLIES.count), 1)
    assert cluster.holders() == dict.fromkeys(range(GROUPS.count), 1)
    assert {await tallies.add(name) for name in NAMES} == {1}
    assert await node.groups.commit(committing("g", {("t", 0): 1})) == {("t", 0): 0}
    assert tallies.metrics.transactions.value == len(NAMES)
    assert node.metrics.group_writes.value == 1
    await tallies.stop()
    assert owners(cluster) == {}
    assert cluster.holders() == dict.fromkeys(range(GROUPS.count), 1)
    assert await node.groups.commit(committing("g", {("t", 0): 2})) == {("t", 0): 0}
    await node.stop()


@simulated
async def test_nothing_is_written_under_a_lease_that_another_broker_has_taken(
    cluster: CoordinatorCluster,
) -> None:
    node, tallies = await broker(cluster, 1)
    assert await tallies.add("n") == 1
    assert isinstance(node.meta, FaultyStore)
    node.meta.faults.watch_delay = 60.0  # the write itself has to find out
    shard = TALLIES.shard_of("n")
    other = encode(Lease(broker=2, incarnation="2-other", term=1))
    cluster.database.apply(Writes(puts={TALLIES.lease_key(shard): other}))
    with pytest.raises(NotCoordinator):
        await tallies.add("n")
    assert cluster.database.entries[records(shard) + "n"].value == b"1"
    await tallies.stop()
    assert cluster.database.entries[TALLIES.lease_key(shard)].value == other
    await node.stop()


@simulated
async def test_another_kind_of_state_moves_to_a_new_broker_and_back_without_loss(
    cluster: CoordinatorCluster,
) -> None:
    first_node, first = await broker(cluster, 0)
    client = TallyClient({0: first})
    for name in NAMES:
        await client.add(name)
    second_node, second = await broker(cluster, 1)
    client.tallies[1] = second
    await asyncio.gather(*(client.keep_adding(name, 60) for name in NAMES))
    assert owners(cluster) == placed(cluster)
    assert set(placed(cluster).values()) == {0, 1}
    assert client.answered_by.keys() == {0, 1}
    await client.check()
    assert client.told == dict.fromkeys(NAMES, 61)

    await second.stop()
    await second_node.stop()
    del client.tallies[1]
    await asyncio.sleep(1)
    assert owners(cluster) == dict.fromkeys(range(TALLIES.count), 0)
    await client.check()
    assert {await first.read(name) for name in NAMES} == {61}
    await first.stop()
    await first_node.stop()


@pytest.mark.parametrize("seed", range(4))
def test_another_kind_of_state_survives_lost_answers_and_a_dead_broker(seed: int) -> None:
    async def scenario(cluster: CoordinatorCluster) -> None:
        first_node, first = await broker(cluster, 2 * seed)
        second_node, second = await broker(cluster, 2 * seed + 1)
        client = TallyClient({2 * seed: first, 2 * seed + 1: second})
        for node in (first_node, second_node):
            faults(node, lost=0.1, unavailable=0.1)
        adding = asyncio.gather(*(client.keep_adding(name, 60) for name in NAMES))
        await asyncio.sleep(30)
        assert isinstance(second_node.member.session, RenewedSession)
        await second_node.member.session.abandon()
        await second.crash()
        await second_node.crash()
        del client.tallies[2 * seed + 1]
        await adding
        faults(first_node, lost=0, unavailable=0)
        await asyncio.sleep(8)
        await client.check()
        assert min(client.told.values()) >= 60
        await first.stop()
        await first_node.stop()

    simulated(scenario)()
