"""Offsets: who may commit, what is kept, what is read, what is deleted."""

import asyncio
from dataclasses import replace

import pytest

from headwater.groups.requests import (
    ClassicDescription,
    CommitRequest,
    CommittedOffset,
    LeavingMember,
    ListedGroup,
)
from headwater.meta.memory import MemoryStore
from headwater.wire.error_codes import Code
from tests.support.groups.cluster import (
    Node,
    SharedTopics,
    beating,
    committing,
    joining,
    one_node,
    syncing,
)
from tests.support.simulation.loop import on_simulated_time

ORDERS = ("orders", 0)


async def stable(node: Node, group: str, **more: object) -> str:
    """A member that joined and synced; its id."""
    member_id = (await node.groups.join(group, joining(**more))).member_id  # type: ignore[arg-type]
    await node.groups.sync(group, syncing(member_id, 1, **{member_id: b""}))
    return member_id


@on_simulated_time
async def test_a_commit_without_a_group_creates_one_that_only_has_offsets() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        assert await node.groups.commit(committing("g", {ORDERS: 3})) == {ORDERS: 0}
        assert await node.groups.list() == [ListedGroup("g", "", "Empty", "classic")]
        assert await node.groups.describe_classic("g") == ClassicDescription(state="Empty")
        consumer = await node.groups.describe_consumer("g")
        assert consumer.error == Code.GROUP_ID_NOT_FOUND
        assert await node.groups.delete("g") == 0
        assert await node.groups.list() == []
        assert await node.groups.fetch("g", None) == (0, {})


@pytest.mark.parametrize(
    ("version", "code"), [(8, Code.ILLEGAL_GENERATION), (9, Code.GROUP_ID_NOT_FOUND)]
)
@on_simulated_time
async def test_a_member_of_an_unknown_group_commits_nothing(version: int, code: int) -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        request = CommitRequest(
            group="g",
            member_id="m",
            epoch=3,
            version=version,
            offsets={ORDERS: CommittedOffset(offset=1)},
        )
        assert await node.groups.commit(request) == {ORDERS: code}
        assert await node.groups.list() == []


@on_simulated_time
async def test_a_group_that_only_has_offsets_refuses_commits_of_members() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        await node.groups.commit(committing("g", {ORDERS: 3}))
        stranger = committing("g", {ORDERS: 4}, member_id="m", epoch=1)
        assert await node.groups.commit(stranger) == {ORDERS: Code.UNKNOWN_MEMBER_ID}


@on_simulated_time
async def test_unknown_members_and_old_generations_do_not_commit_to_a_group_with_members() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        me = await stable(node, "g")
        for request, code in (
            (committing("g", {ORDERS: 1}), Code.UNKNOWN_MEMBER_ID),
            (committing("g", {ORDERS: 1}, member_id="m", epoch=1), Code.UNKNOWN_MEMBER_ID),
            (committing("g", {ORDERS: 1}, member_id=me, epoch=0), Code.ILLEGAL_GENERATION),
            (committing("g", {ORDERS: 1}, member_id=me, epoch=1), Code.NONE),
        ):
            assert await node.groups.commit(request) == {ORDERS: code}


@on_simulated_time
async def test_a_member_commits_while_the_group_prepares_a_rebalance() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        me = await stable(node, "g")
        other = asyncio.create_task(node.groups.join("g", joining()))
        await asyncio.sleep(0.01)
        assert (await node.groups.describe_classic("g")).state == "PreparingRebalance"
        mine = committing("g", {ORDERS: 1}, member_id=me, epoch=1)
        assert await node.groups.commit(mine) == {ORDERS: 0}
        await node.groups.leave("g", [LeavingMember(me, None)])
        await other


@on_simulated_time
async def test_metadata_epoch_and_time_are_kept() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        given = CommittedOffset(offset=5, leader_epoch=7, metadata="näher", expires_ms=9)
        await node.groups.commit(CommitRequest(group="g", version=4, offsets={ORDERS: given}))
        _, found = await node.groups.fetch("g", [ORDERS])
        kept = found[ORDERS]
        assert (kept.offset, kept.leader_epoch, kept.metadata, kept.expires_ms) == (
            5,
            7,
            "näher",
            9,
        )
        assert kept.committed_ms > 0


@on_simulated_time
async def test_long_metadata_and_unknown_partitions_are_refused_one_by_one() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        offsets = {
            ORDERS: CommittedOffset(offset=1, metadata="x" * 4096),
            ("orders", 1): CommittedOffset(offset=1),
            ("nothing", 0): CommittedOffset(offset=1),
        }
        codes = await node.groups.commit(CommitRequest(group="g", version=9, offsets=offsets))
        assert codes == {
            ORDERS: 0,
            ("orders", 1): Code.UNKNOWN_TOPIC_OR_PARTITION,
            ("nothing", 0): Code.UNKNOWN_TOPIC_OR_PARTITION,
        }
        long = {ORDERS: CommittedOffset(offset=2, metadata="x" * 4097)}
        codes = await node.groups.commit(CommitRequest(group="h", version=9, offsets=long))
        assert codes == {ORDERS: Code.OFFSET_METADATA_TOO_LARGE}
        assert [line.group for line in await node.groups.list()] == ["g"]


@on_simulated_time
async def test_a_recreated_topic_does_not_inherit_offsets() -> None:
    topics = SharedTopics(orders=1)
    async with one_node(topics) as node:
        await node.groups.commit(committing("g", {ORDERS: 5}))
        topics.drop("orders")
        assert await node.groups.fetch("g", None) == (0, {})
        topics.make("orders", 1)
        assert await node.groups.fetch("g", None) == (0, {})
        assert await node.groups.fetch("g", [ORDERS]) == (0, {ORDERS: CommittedOffset()})
        await node.groups.commit(committing("g", {ORDERS: 1}))
        _, found = await node.groups.fetch("g", None)
        assert found[ORDERS].offset == 1


@on_simulated_time
async def test_offsets_of_similar_names_are_separate() -> None:
    store, names = (
        MemoryStore(),
        ["", "a", "a/b", "a%2Fb", "a/", "Gruppe ü", "a b", "..", "+offsets"],
    )
    topics = SharedTopics(**{"t.1": 2, "t": 11})
    for start in range(2):
        async with one_node(topics, meta=store) as node:
            for number, name in enumerate(names):
                if start == 0:
                    offsets = {("t", 10): number, ("t.1", 1): number + 100}
                    assert set((await node.groups.commit(committing(name, offsets))).values()) == {
                        0
                    }
            for number, name in enumerate(names):
                _, found = await node.groups.fetch(name, None)
                assert {where: each.offset for where, each in found.items()} == {
                    ("t", 10): number,
                    ("t.1", 1): number + 100,
                }
            assert [line.group for line in await node.groups.list()] == sorted(names)


@on_simulated_time
async def test_many_topics_are_read_at_once() -> None:
    topics = SharedTopics(**{f"t{number}": 1 for number in range(20)})
    async with one_node(topics) as node:
        offsets = {(f"t{number}", 0): number for number in range(15)}
        await node.groups.commit(committing("g", offsets))
        _, found = await node.groups.fetch("g", [(f"t{number}", 0) for number in range(20)])
        assert {where: each.offset for where, each in found.items()} == {
            (f"t{number}", 0): number if number < 15 else -1 for number in range(20)
        }


@on_simulated_time
async def test_offsets_of_topics_in_use_are_not_deleted() -> None:
    async with one_node(SharedTopics(orders=1, old=1)) as node:
        assert await node.groups.delete_offsets("g", [ORDERS]) == (Code.GROUP_ID_NOT_FOUND, {})
        # A subscription to "orders", as the consumer's embedded protocol writes it.
        subscription = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
        me = await stable(node, "g", protocols=(("range", subscription),))
        mine = committing("g", {ORDERS: 1, ("old", 0): 1}, member_id=me, epoch=1)
        assert set((await node.groups.commit(mine)).values()) == {0}
        assert await node.groups.delete_offsets("g", [ORDERS, ("old", 0)]) == (
            0,
            {ORDERS: Code.GROUP_SUBSCRIBED_TO_TOPIC, ("old", 0): 0},
        )
        _, found = await node.groups.fetch("g", None)
        assert list(found) == [ORDERS]
        assert await node.groups.delete("g") == Code.NON_EMPTY_GROUP
        await node.groups.leave("g", [LeavingMember(me, None)])
        assert await node.groups.delete_offsets("g", [ORDERS]) == (0, {ORDERS: 0})
        assert await node.groups.delete("g") == 0


@on_simulated_time
async def test_offsets_of_a_group_with_members_of_another_protocol_are_not_deleted() -> None:
    async with one_node(SharedTopics(orders=1)) as node:
        await stable(node, "g", protocol_type="connect")
        assert await node.groups.delete_offsets("g", [ORDERS]) == (Code.NON_EMPTY_GROUP, {})


@on_simulated_time
async def test_a_recreated_group_begins_empty() -> None:
    store, topics = MemoryStore(), SharedTopics(orders=2)
    async with one_node(topics, meta=store) as node:
        await node.groups.commit(committing("g", {ORDERS: 5, ("orders", 1): 5}))
        deleting = asyncio.create_task(node.groups.delete("g"))
        await asyncio.sleep(0)
        assert await node.groups.commit(committing("g", {("orders", 1): 1})) == {("orders", 1): 0}
        assert await deleting == 0
    async with one_node(topics, meta=store) as node:
        _, found = await node.groups.fetch("g", None)
        assert {where: each.offset for where, each in found.items()} == {("orders", 1): 1}


@on_simulated_time
async def test_a_member_with_an_epoch_must_commit_with_a_version_that_has_epochs() -> None:
    async with one_node(SharedTopics(t=1)) as node:
        joined = await node.groups.consumer_heartbeat("g", beating("a", 0))
        request = committing("g", {("t", 0): 1}, member_id="a", epoch=joined.epoch)
        old = replace(request, version=8)
        assert await node.groups.commit(old) == {("t", 0): Code.UNSUPPORTED_VERSION}
        assert await node.groups.commit(request) == {("t", 0): Code.NONE}


@on_simulated_time
async def test_a_late_commit_counts_for_partitions_that_the_member_had_and_has() -> None:
    topics = SharedTopics(t=2)
    async with one_node(topics) as node:
        first = await node.groups.consumer_heartbeat("g", beating("a", 0))
        assert first.assignment == {(await topics.find("t")).id: (0, 1)}
        await node.groups.consumer_heartbeat("g", beating("b", 0))
        shrunk = await node.groups.consumer_heartbeat("g", beating("a", first.epoch))
        assert shrunk.assignment is not None
        (kept,) = next(iter(shrunk.assignment.values()))
        owned = replace(beating("a", shrunk.epoch), owned=shrunk.assignment)
        reached = await node.groups.consumer_heartbeat("g", owned)
        assert reached.epoch > first.epoch
        late = committing("g", {("t", 0): 1, ("t", 1): 1}, member_id="a", epoch=first.epoch)
        assert await node.groups.commit(late) == {
            ("t", kept): 0,
            ("t", 1 - kept): Code.STALE_MEMBER_EPOCH,
        }
        _, found = await node.groups.fetch("g", None)
        assert list(found) == [("t", kept)]
