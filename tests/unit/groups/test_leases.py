"""Several brokers: who holds which shard, how shards move, and who answers meanwhile."""

import asyncio

import pytest

from headwater.errors import CoordinatorNotAvailable, NotCoordinator
from headwater.groups.group import GROUPS
from headwater.groups.requests import HeartbeatRequest
from headwater.meta.sessions import RenewedSession
from tests.support.groups.cluster import CoordinatorCluster, committing, joining, simulated, syncing
from tests.support.meta.faulty import FaultyStore


@simulated
async def test_a_broker_takes_all_shards_that_are_its_own(cluster: CoordinatorCluster) -> None:
    node = await cluster.node(1)
    await asyncio.sleep(2)
    assert cluster.holders() == dict.fromkeys(range(GROUPS.count), 1)
    assert node.metrics.group_writes.value == 0
    await node.stop()
    assert cluster.holders() == {}


@simulated
async def test_a_new_broker_gets_its_share_of_the_shards_and_their_groups_continue(
    cluster: CoordinatorCluster,
) -> None:
    first = await cluster.node(1)
    name = next(
        name for name in map(str, range(9)) if cluster.brokers.chosen(GROUPS.shard_of(name)) == 1
    )
    me = (await first.groups.join(name, joining())).member_id
    await first.groups.sync(name, syncing(me, 1, **{me: b"mine"}))
    second = await cluster.node(0)
    assert first.groups.coordinator(name) == second.groups.coordinator(name) == 1
    beat = HeartbeatRequest(member_id=me, instance_id=None, generation=1)
    moved = cluster.brokers.chosen(GROUPS.shard_of(name)) == 0
    for _ in range(20):
        await asyncio.sleep(5)
        where = first.groups.coordinator(name)
        assert await {0: second, 1: first}[where].groups.heartbeat(name, beat) == 0
    assert cluster.holders() == {
        number: cluster.brokers.chosen(number) for number in range(GROUPS.count)
    }
    assert first.groups.coordinator(name) == (0 if moved else 1)
    await first.stop()
    await second.stop()


@simulated
async def test_a_broker_that_is_not_the_coordinator_refuses_requests(
    cluster: CoordinatorCluster,
) -> None:
    nodes = [await cluster.node(number) for number in range(3)]
    await asyncio.sleep(60)
    for name in map(str, range(30)):
        holder = nodes[0].groups.coordinator(name)
        assert {node.groups.coordinator(name) for node in nodes} == {holder}
        for node in nodes:
            if node.member.node_id == holder:
                assert await node.groups.commit(committing(name, {("t", 0): 1})) == {("t", 0): 0}
            else:
                with pytest.raises(NotCoordinator):
                    await node.groups.commit(committing(name, {("t", 0): 2}))
    listed = [line.group for node in nodes for line in await node.groups.list()]
    assert sorted(listed) == sorted(map(str, range(30)))
    for node in nodes:
        await node.stop()


@simulated
async def test_a_broker_that_stops_hands_its_groups_over_at_once(
    cluster: CoordinatorCluster,
) -> None:
    first, second = await cluster.node(0), await cluster.node(1)
    await asyncio.sleep(60)
    name = next(name for name in map(str, range(9)) if first.groups.coordinator(name) == 0)
    await first.groups.join(name, joining())
    waiting = asyncio.create_task(first.groups.join(name, joining()))
    await asyncio.sleep(1)
    await first.stop()
    with pytest.raises(NotCoordinator):
        await waiting
    await asyncio.sleep(0.5)
    assert second.groups.coordinator(name) == 1
    assert (await second.groups.describe_classic(name)).error == 0
    await second.stop()


@simulated
async def test_a_dead_brokers_groups_are_taken_over_when_its_session_ends(
    cluster: CoordinatorCluster,
) -> None:
    first, second = await cluster.node(0), await cluster.node(1)
    await asyncio.sleep(60)
    name = next(name for name in map(str, range(9)) if first.groups.coordinator(name) == 0)
    await first.groups.commit(committing(name, {("t", 0): 7}))
    assert isinstance(first.member.session, RenewedSession)
    await first.member.session.abandon()
    await first.crash()
    with pytest.raises(NotCoordinator):
        await second.groups.fetch(name, None)
    await asyncio.sleep(11)
    _, found = await second.groups.fetch(name, None)
    assert found["t", 0].offset == 7
    await second.stop()


@simulated
async def test_memory_answers_end_before_the_session_does(cluster: CoordinatorCluster) -> None:
    node = await cluster.node(1)
    me = (await node.groups.join("g", joining())).member_id
    beat = HeartbeatRequest(member_id=me, instance_id=None, generation=1)
    assert isinstance(node.member.session, RenewedSession)
    await node.member.session.abandon()
    await asyncio.sleep(node.member.session.remaining - 0.6)
    await node.groups.heartbeat("g", beat)
    await asyncio.sleep(0.2)
    assert GROUPS.lease_key(GROUPS.shard_of("g")) in cluster.database.entries
    with pytest.raises(NotCoordinator):
        await node.groups.heartbeat("g", beat)
    await node.crash()


@simulated
async def test_a_broker_that_lost_its_session_goes_on_with_the_next_one(
    cluster: CoordinatorCluster,
) -> None:
    node = await cluster.node(1)
    me = (await node.groups.join("g", joining())).member_id
    await node.groups.sync("g", syncing(me, 1, **{me: b"mine"}))
    waiting = asyncio.create_task(node.groups.join("g", joining()))
    await asyncio.sleep(0.1)
    assert isinstance(node.member.session, RenewedSession)
    await node.member.session.abandon()
    await asyncio.sleep(12)
    with pytest.raises(NotCoordinator):
        await waiting
    with pytest.raises(NotCoordinator):
        await node.groups.sync("g", syncing(me, 1))
    await node.member.enter(node.meta, 10)
    await asyncio.sleep(0.5)
    assert (await node.groups.sync("g", syncing(me, 1))).assignment == b"mine"
    await node.stop()


@simulated
async def test_a_restarted_broker_takes_its_shards_if_its_old_process_is_known_to_be_dead(
    cluster: CoordinatorCluster,
) -> None:
    node = await cluster.node(1)
    await node.groups.commit(committing("g", {("t", 0): 7}))
    await node.crash()
    again = await cluster.node(1, exclusive=True)
    _, found = await again.groups.fetch("g", None)
    assert found["t", 0].offset == 7
    with pytest.raises(NotCoordinator):
        await node.groups.commit(committing("g", {("t", 0): 8}))
    await again.stop()


@simulated
async def test_while_the_store_is_unreachable_requests_fail_and_nothing_diverges(
    cluster: CoordinatorCluster,
) -> None:
    node = await cluster.node(1)
    assert isinstance(node.meta, FaultyStore)
    await node.groups.commit(committing("g", {("t", 0): 1}))
    node.meta.faults.unavailable = 1.0
    loop = asyncio.get_running_loop()
    for request in (
        node.groups.commit(committing("g", {("t", 0): 2})),
        node.groups.join("h", joining()),
        node.groups.fetch("g", None),
    ):
        started = loop.time()
        with pytest.raises(CoordinatorNotAvailable):
            await request
        assert loop.time() - started < 12
    node.meta.faults.unavailable = 0.0
    await asyncio.sleep(8)
    _, found = await node.groups.fetch("g", None)
    assert found["t", 0].offset == 1
    assert [line.group for line in await node.groups.list()] == ["g"]
    assert await node.groups.commit(committing("g", {("t", 0): 3})) == {("t", 0): 0}
    await node.stop()


@simulated
async def test_shards_without_groups_move_at_once(cluster: CoordinatorCluster) -> None:
    first = await cluster.node(0)
    await asyncio.sleep(5)
    second = await cluster.node(1)
    await asyncio.sleep(2)
    assert cluster.holders() == {
        number: cluster.brokers.chosen(number) for number in range(GROUPS.count)
    }
    await first.stop()
    await second.stop()
