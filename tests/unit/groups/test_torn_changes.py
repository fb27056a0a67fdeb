"""Changes that were written in part, because their coordinator died or the store went away."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.errors import CoordinatorNotAvailable, StoreUnavailable
from headwater.groups.consumer.consumer_protocol import write_assignment
from headwater.groups.group import GROUPS
from headwater.groups.requests import JoinReply, LeavingMember
from headwater.groups.settings import GroupSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide, Limits, T
from headwater.wire.error_codes import Code
from tests.support.groups.cluster import (
    CoordinatorCluster,
    Node,
    SharedTopics,
    beating,
    committing,
    joining,
    simulated,
    syncing,
)
from tests.support.groups.consumer_mixed import subscription

MEMBERS = 60


class Cut(MemoryStore):
    """Lets ``left`` transactions of coordinators pass, then is away; None lets all pass."""

    left: int | None = None

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if self.left is not None and any("coordinators/" in key for key in keys):
            if self.left <= 0:
                await asyncio.sleep(0.01)
                raise StoreUnavailable("away")
            self.left -= 1
        return await super().transact(domain, keys, decide)


async def join_classic(node: Node, group: str) -> set[str]:
    """Make a stable classic group of many members with a partition each; their ids."""
    protocols = (("range", subscription(["t"])),)
    joined: list[JoinReply] = await asyncio.gather(
        *(node.groups.join(group, joining(protocols=protocols)) for _ in range(MEMBERS))
    )
    while len({reply.generation for reply in joined}) > 1:
        again = (joining(reply.member_id, protocols=protocols) for reply in joined)
        joined = await asyncio.gather(*(node.groups.join(group, request) for request in again))
    leader, generation = joined[0].leader, joined[0].generation
    ids = [reply.member_id for reply in joined]
    made = {each: write_assignment({"t": [n]}, protocols[0][1]) for n, each in enumerate(ids)}
    await asyncio.gather(
        *(
            node.groups.sync(group, syncing(each, generation, **(made if each == leader else {})))
            for each in ids
        )
    )
    return set(ids)


@pytest.mark.parametrize("cut", [1, 2])
def test_a_conversion_that_was_written_only_in_part_leaves_no_members_behind(cut: int) -> None:
    async def scenario(cluster: CoordinatorCluster) -> None:
        topics, settings = SharedTopics(t=MEMBERS), GroupSettings(initial_rebalance_delay_ms=100)
        store = Cut(Limits(operations=128), database=cluster.database)
        node = await cluster.node(1, store, topics=topics, settings=settings)
        beside = next(
            n for n in map(str, range(9999)) if GROUPS.shard_of(n) == GROUPS.shard_of("g")
        )
        await node.groups.commit(committing("g", {("t", 0): 5}))
        await node.groups.commit(committing(beside, {("t", 0): 7}))
        await join_classic(node, "g")
        store.left = cut
        with pytest.raises(CoordinatorNotAvailable):
            await node.groups.consumer_heartbeat("g", beating("new", 0))
        store.left = None
        await asyncio.sleep(8)
        members = await join_classic(node, "g")
        assert (await node.groups.consumer_heartbeat("g", beating("new", 0))).error == 0
        await node.stop()
        again = await cluster.node(1, topics=topics)
        await asyncio.sleep(2)
        for name, offset in ((beside, 7), ("g", 5)):
            _, found = await again.groups.fetch(name, None)
            assert found["t", 0].offset == offset
        described = await again.groups.describe_consumer("g")
        assert {member.member_id for member in described.members} == members | {"new"}
        await again.stop()

    simulated(scenario)()


@simulated
async def test_a_group_too_large_for_the_store_is_refused_and_keeps_its_state(
    cluster: CoordinatorCluster,
) -> None:
    store = MemoryStore(Limits(operations=128, value_bytes=2**20), database=cluster.database)
    node = await cluster.node(1, store)
    await asyncio.sleep(1)
    beside = next(n for n in map(str, range(9999)) if GROUPS.shard_of(n) == GROUPS.shard_of("g"))
    elsewhere = next(n for n in map(str, range(9999)) if GROUPS.shard_of(n) != GROUPS.shard_of("g"))
    await node.groups.commit(committing(beside, {("t", 0): 7}))
    for turn in range(2):
        joined = await node.groups.join("g", joining())
        large = {joined.member_id: b"x" * 2**20}
        request = syncing(joined.member_id, joined.generation, **large)
        sync = asyncio.create_task(node.groups.sync("g", request))
        other = committing(elsewhere, {("t", 0): turn})
        await asyncio.sleep(0)
        assert await node.groups.commit(other) == {("t", 0): 0}
        assert (await sync).error == Code.UNKNOWN_SERVER_ERROR
        members = (await node.groups.describe_classic("g")).members
        assert [member.assignment for member in members] == [b""]
        await node.groups.leave("g", [LeavingMember(joined.member_id, None)])
    _, found = await node.groups.fetch(beside, None)
    assert found["t", 0].offset == 7
    await node.stop()
