"""One coordinator: requests to machines, records to the store, replies to clients."""

import asyncio
from itertools import product

import pytest

from headwater.errors import RequestSuperseded
from headwater.groups import heartbeat_limiter
from headwater.groups.configs import GroupConfigs
from headwater.groups.requests import (
    CommittedOffset,
    HeartbeatRequest,
    LeavingMember,
    ListedGroup,
)
from headwater.meta.memory import MemoryStore
from headwater.wire.error_codes import Code
from headwater.work_budget import TURN_ELEMENTS
from tests.support.groups.cluster import (
    SETTINGS,
    LivingBrokers,
    Node,
    SharedTopics,
    beating,
    committing,
    joining,
    one_node,
    syncing,
)
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated


async def test_a_member_joins_syncs_commits_and_leaves() -> None:
    async with one_node(SharedTopics(orders=2)) as node:
        groups = node.groups
        joined = await groups.join("g", joining())
        assert (joined.error, joined.generation, joined.leader) == (0, 1, joined.member_id)
        me = joined.member_id
        synced = await groups.sync("g", syncing(me, 1, **{me: b"all"}))
        assert (synced.error, synced.assignment) == (0, b"all")
        beat = HeartbeatRequest(member_id=me, instance_id=None, generation=1)
        assert await groups.heartbeat("g", beat) == 0
        mine = committing("g", {("orders", 0): 7}, member_id=me, epoch=1)
        assert await groups.commit(mine) == {("orders", 0): 0}
        code, found = await groups.fetch("g", [("orders", 0), ("orders", 1)])
        assert code == 0
        assert found["orders", 0].offset == 7
        assert found["orders", 1] == CommittedOffset()
        assert await groups.list() == [ListedGroup("g", "consumer", "Stable", "classic")]
        left = await groups.leave("g", [LeavingMember(me, None)])
        assert left.members == ((me, None, 0),)
        assert (await groups.describe_classic("g")).state == "Empty"


async def test_a_request_that_is_repeated_on_another_connection_supersedes_the_first() -> None:
    """Commits that are queued behind it would take effect after newer ones."""
    async with one_node(SharedTopics(orders=1)) as node:
        joins = [asyncio.create_task(node.groups.join("g", joining())) for _ in range(2)]
        members = [(await join).member_id for join in joins]
        leader = (await joins[0]).leader
        await asyncio.gather(
            *(node.groups.sync("g", syncing(member, 1, **{leader: b"all"})) for member in members)
        )
        first = asyncio.create_task(node.groups.join("g", joining(leader)))
        await asyncio.sleep(0)
        second = asyncio.create_task(node.groups.join("g", joining(leader)))
        with pytest.raises(RequestSuperseded):
            await first
        assert not second.done()
        second.cancel()


async def test_another_coordinator_continues_with_generation_members_and_offsets() -> None:
    store, topics = MemoryStore(), SharedTopics(orders=1)
    async with one_node(topics, meta=store) as node:
        joined = await node.groups.join("g", joining())
        me = joined.member_id
        await node.groups.sync("g", syncing(me, 1, **{me: b"all"}))
        await node.groups.commit(committing("g", {("orders", 0): 7}, member_id=me, epoch=1))
    async with one_node(topics, meta=store) as node:
        beat = HeartbeatRequest(member_id=me, instance_id=None, generation=1)
        assert await node.groups.heartbeat("g", beat) == 0
        assert (await node.groups.sync("g", syncing(me, 1))).assignment == b"all"
        _, found = await node.groups.fetch("g", None)
        assert {where: offset.offset for where, offset in found.items()} == {("orders", 0): 7}


async def test_a_join_whose_client_disconnected_leaves_no_waiting_request() -> None:
    async with one_node(SharedTopics()) as node:
        first = await node.groups.join("g", joining())
        waiting = asyncio.create_task(node.groups.join("g", joining()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        again = await node.groups.join("g", joining(first.member_id))
        assert again.error == 0
        assert again.generation == 2


async def test_requests_for_an_unknown_group_leave_no_group() -> None:
    async with one_node(SharedTopics()) as node:
        beat = HeartbeatRequest(member_id="m", instance_id=None, generation=1)
        assert await node.groups.heartbeat("g", beat) == Code.UNKNOWN_MEMBER_ID
        assert (await node.groups.sync("g", syncing("m", 1))).error == Code.UNKNOWN_MEMBER_ID
        assert (await node.groups.join("g", joining("m"))).error == Code.UNKNOWN_MEMBER_ID
        left = await node.groups.leave("g", [LeavingMember("m", None)])
        assert left.members == (("m", None, Code.UNKNOWN_MEMBER_ID),)
        assert await node.groups.list() == []
        assert (await node.groups.describe_classic("g")).error == Code.GROUP_ID_NOT_FOUND
        assert await node.groups.delete("g") == Code.GROUP_ID_NOT_FOUND


async def test_a_group_changes_its_kind_with_its_members_in_it() -> None:
    store, topics = MemoryStore(), SharedTopics(t=4)
    subscription = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    async with one_node(topics, meta=store) as node:
        joined = await node.groups.join("g", joining(protocols=(("range", subscription),)))
        me = joined.member_id
        await node.groups.sync("g", syncing(me, 1, **{me: b""}))
        reply = await node.groups.consumer_heartbeat("g", beating("new", 0))
        assert reply.error == 0
        assert await node.groups.list() == [ListedGroup("g", "consumer", "Reconciling", "consumer")]
        described = await node.groups.describe_consumer("g")
        assert {member.member_id for member in described.members} == {me, "new"}
    async with one_node(topics, meta=store) as node:
        assert len((await node.groups.describe_consumer("g")).members) == 2
        assert (await node.groups.consumer_heartbeat("g", beating("new", -1))).error == 0
        classic = await node.groups.describe_classic("g")
        assert [member.member_id for member in classic.members] == [me]
        assert [line.kind for line in await node.groups.list()] == ["classic"]


async def test_a_heartbeat_for_an_unknown_group_creates_none() -> None:
    async with one_node(SharedTopics(t=1)) as node:
        await node.groups.commit(committing("simple", {("t", 0): 1}))
        for name, epoch in product(("simple", "nothing"), (3, -1, -2)):
            reply = await node.groups.consumer_heartbeat(name, beating("m", epoch))
            assert reply.error == Code.GROUP_ID_NOT_FOUND
        assert await node.groups.list() == [ListedGroup("simple", "", "Empty", "classic")]
        assert (await node.groups.consumer_heartbeat("simple", beating("m", 0))).error == 0
        assert [line.kind for line in await node.groups.list()] == ["consumer"]
        _, found = await node.groups.fetch("simple", None)
        assert found["t", 0].offset == 1


async def test_configs_of_a_group_apply_from_its_next_heartbeat_on() -> None:
    store = MemoryStore()
    configs = GroupConfigs(store, SETTINGS)
    node = Node(LivingBrokers(), 1, store, SharedTopics(t=1), configs=configs)
    await node.start()
    reply = await node.groups.consumer_heartbeat("g", beating("m", 0))
    assert reply.heartbeat_interval_ms == SETTINGS.consumer_heartbeat_interval_ms
    await configs.change("g", lambda _: {"consumer.heartbeat.interval.ms": "7000"})
    reply = await node.groups.consumer_heartbeat("g", beating("m", reply.epoch))
    assert reply.heartbeat_interval_ms == 7_000
    await node.stop()


async def silence(loop: SimulatedLoop) -> None:
    store, topics, clock = MemoryStore(), SharedTopics(t=1), SimulatedClock(loop)
    async with one_node(topics, meta=store, clock=clock) as node:
        await join_and_fall_silent(node, "g", 30_000)
        await join_and_fall_silent(node, "h", 90_000)
        await asyncio.sleep(29)
        assert [line.state for line in await node.groups.list()] == ["Stable", "Stable"]
        await asyncio.sleep(2)
        assert [line.state for line in await node.groups.list()] == ["Empty", "Stable"]
    async with one_node(topics, meta=store, clock=clock) as node:
        await asyncio.sleep(80)
        assert [line.state for line in await node.groups.list()] == ["Empty", "Stable"]
        await asyncio.sleep(20)
        assert [line.state for line in await node.groups.list()] == ["Empty", "Empty"]


async def join_and_fall_silent(node: Node, group: str, session_timeout_ms: int) -> None:
    request = joining(session_timeout_ms=session_timeout_ms)
    me = (await node.groups.join(group, request)).member_id
    await node.groups.sync(group, syncing(me, 1, **{me: b""}))


def test_silent_members_are_removed_and_a_takeover_restarts_their_sessions() -> None:
    loop = SimulatedLoop()
    run_simulated(silence(loop), loop)


async def report_without_pause(loop: SimulatedLoop) -> None:
    async with one_node(SharedTopics(t=1), clock=SimulatedClock(loop)) as node:
        epoch = (await node.groups.consumer_heartbeat("g", beating("m", 0))).epoch
        started = loop.time()
        for _ in range(220):
            assert (await node.groups.consumer_heartbeat("g", beating("m", epoch))).error == 0
        assert 35 < loop.time() - started < 45
        started = loop.time()
        assert (await node.groups.consumer_heartbeat("g", beating("other", 0))).error == 0
        await asyncio.sleep(10)
        for _ in range(15):
            await node.groups.consumer_heartbeat("g", beating("m", epoch))
        assert loop.time() - started == pytest.approx(10), "its burst is there again"


def test_only_the_member_that_sends_too_many_heartbeats_is_slowed_down() -> None:
    loop = SimulatedLoop()
    run_simulated(report_without_pause(loop), loop)


async def test_the_members_that_the_limiter_remembers_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeat_limiter, "MAX_MEMBERS", 2)
    pace = heartbeat_limiter.HeartbeatLimiter()
    for _ in range(2 * heartbeat_limiter.BURST):
        last = pace.delay("g", "a", 0.0)
    assert last == heartbeat_limiter.MAX_DELAY
    for member in "bc":
        assert pace.delay("g", member, 0.0) == 0.0
    assert pace.delay("g", "a", 0.0) == 0.0


async def test_listing_many_groups_yields_to_the_event_loop() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        for number in range(3 * TURN_ELEMENTS):
            await node.groups.commit(committing(f"g{number}", {("orders", 0): 1}))
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        listed = await node.groups.list()
        task.cancel()
        assert len(listed) == 3 * TURN_ELEMENTS
        assert turns == 2
