"""Expiry: which offsets and groups have had their time, and that no commit is lost to it."""

import asyncio
from dataclasses import dataclass
from random import Random

import pytest

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.records import member_name
from headwater.groups.coordinator import GroupCoordinator
from headwater.groups.expiry import expired
from headwater.groups.machine import Effects, Ticket
from headwater.groups.offsets import OffsetRecord
from headwater.groups.requests import (
    CommitRequest,
    CommittedOffset,
    LeavingMember,
)
from headwater.groups.settings import GroupSettings
from headwater.meta.memory import MemoryStore
from tests.support.groups.cluster import (
    Node,
    SharedTopics,
    beating,
    committing,
    joining,
    one_node,
    syncing,
)
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated

WEEK = 7 * 86_400_000
MINUTE = 60_000
SETTINGS = GroupSettings(
    initial_rebalance_delay_ms=0,
    offsets_retention_minutes=70,
    offsets_retention_check_interval_ms=MINUTE,
)


@dataclass
class Fake:
    """A machine as far as expiry looks at it."""

    kind: str = "classic"
    state: str = "Stable"
    protocol_type: str = "consumer"
    empty_since_ms: int | None = None
    topic: str = "read"
    deadline: float | None = None

    @property
    def empty(self) -> bool:
        return self.empty_since_ms is not None

    def subscribed_to(self, topic: str) -> bool:
        return not self.empty and topic == self.topic

    def expire(self, now: float, now_ms: int) -> Effects:
        return Effects()

    def is_modern(self, member_id: str) -> bool:
        raise AssertionError(member_id)

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> int:
        return 0

    def check_fetch(self, member_id: str | None, epoch: int) -> int:
        return 0


def offset(committed_ms: int, expires_ms: int | None = None) -> OffsetRecord:
    return OffsetRecord(offset=1, topic=b"", committed_ms=committed_ms, expires_ms=expires_ms)


@pytest.mark.parametrize(
    ("machine", "record", "goes"),
    [
        (None, offset(0), True),
        (None, offset(1), False),
        (None, offset(0, expires_ms=WEEK + 1), False),
        (None, offset(WEEK, expires_ms=WEEK), True),
        (Fake(empty_since_ms=0), offset(WEEK), True),
        (Fake(empty_since_ms=1), offset(0), False),
        (Fake(), offset(0), True),
        (Fake(topic="t"), offset(0), False),
        (Fake(topic="t"), offset(0, expires_ms=1), False),
        (Fake(state="PreparingRebalance"), offset(0), False),
        (Fake(protocol_type="connect"), offset(0), False),
        (Fake(protocol_type="connect", empty_since_ms=0), offset(WEEK), True),
        (Fake(protocol_type="", empty_since_ms=0), offset(1), False),
        (Fake(kind="consumer", empty_since_ms=0), offset(1), False),
        (Fake(kind="consumer"), offset(0), True),
        (Fake(kind="consumer", topic="t"), offset(0), False),
    ],
)
def test_offsets_expire_by_the_rules_of_kafka(
    machine: Fake | None, record: OffsetRecord, *, goes: bool
) -> None:
    assert expired(machine, "t", record, WEEK, WEEK) is goes


def test_commit_times_count_in_a_group_that_was_stored_only_in_part() -> None:
    settings = GroupSettings(initial_rebalance_delay_ms=0)
    group = ClassicGroup("g", settings, Random(1), 0)
    records: dict[str, bytes | None] = {}
    records |= group.join(Ticket(1), joining(), 0.0, 0).records
    records |= group.expire(1.0, 0).records
    me = group.members[0].member_id
    records |= group.sync(Ticket(2), syncing(me, group.generation, **{me: b"x"}), 1.0, 0).records
    assert group.state == "Stable"
    stored = {name: value for name, value in records.items() if value is not None}
    del stored[member_name(me)]
    again = ClassicGroup.restore("g", stored, settings, Random(1), 5.0)
    assert again.empty
    assert not expired(again, "t", offset(4 * WEEK - 1), 4 * WEEK, WEEK)
    assert expired(again, "t", offset(3 * WEEK), 4 * WEEK, WEEK)


async def sweep(node: Node) -> None:
    """What happens each time that the interval has passed."""
    for shard in list(node.groups._owner.shards()):
        await node.groups._sweeper.sweep(shard)


async def names(groups: GroupCoordinator) -> list[str]:
    return [line.group for line in await groups.list()]


async def run_a_while(loop: SimulatedLoop) -> None:
    store, topics, clock = MemoryStore(), SharedTopics(t=2, u=1), SimulatedClock(loop)
    async with one_node(topics, meta=store, settings=SETTINGS, clock=clock) as node:
        groups = node.groups
        await groups.commit(committing("simple", {("t", 0): 1, ("t", 1): 1}))
        me = (await groups.join("left", joining())).member_id
        await groups.sync("left", syncing(me, 1, **{me: b""}))
        await groups.commit(committing("left", {("t", 0): 1}, member_id=me, epoch=1))
        old = {("t", 0): CommittedOffset(offset=1, expires_ms=clock.now_ms() + 10 * MINUTE)}
        await groups.commit(CommitRequest(group="old client", version=3, offsets=old))
        await groups.leave("left", [LeavingMember(me, None)])
        await groups.join("never committed", joining())
        await asyncio.sleep(30 * 60)
        assert await names(groups) == ["left", "simple"]
        await groups.commit(committing("simple", {("t", 1): 2}))
        await asyncio.sleep(30 * 60)
        _, found = await groups.fetch("simple", None)
        assert len(found) == 2
        await asyncio.sleep(12 * 60)
        _, found = await groups.fetch("simple", None)
        assert list(found) == [("t", 1)]
        assert await names(groups) == ["simple"]
        await asyncio.sleep(30 * 60)
        assert await names(groups) == []
    assert (await store.scan("g/", "g0")).entries == []


def test_every_group_expires_in_its_time() -> None:
    loop = SimulatedLoop()
    run_simulated(run_a_while(loop), loop)


async def test_the_next_sweep_deletes_the_offsets_of_a_deleted_topic() -> None:
    store, topics = MemoryStore(), SharedTopics(t=1, u=1)
    async with one_node(topics, meta=store) as node:
        await node.groups.commit(committing("g", {("t", 0): 1, ("u", 0): 1}))
        await node.groups.commit(committing("h", {("t", 0): 1}))
        topics.drop("t")
        topics.make("t", 1)
        await sweep(node)
        _, found = await node.groups.fetch("g", None)
        assert list(found) == [("u", 0)]
        assert await names(node.groups) == ["g"]
    left = [entry.key for entry in (await store.scan("g/", "g0")).entries]
    assert len(left) == 2


async def test_a_commit_during_a_sweep_is_kept() -> None:
    store, topics = MemoryStore(), SharedTopics(t=1)
    async with one_node(topics, meta=store) as node:
        for round_ in range(20):
            topics.make("t", 1)
            await node.groups.commit(committing("g", {("t", 0): 1}))
            topics.make("t", 1)  # what was committed before may go
            sweeping = asyncio.create_task(sweep(node))
            for _ in range(round_):
                await asyncio.sleep(0)
            committed = committing("g", {("t", 0): 2})
            assert await node.groups.commit(committed) == {("t", 0): 0}
            await sweeping
            _, found = await node.groups.fetch("g", [("t", 0)])
            assert found["t", 0].offset == 2
            assert await names(node.groups) == ["g"]


async def test_a_group_with_members_loses_only_offsets_of_topics_that_no_member_reads() -> None:
    topics = SharedTopics(t=1, u=1)
    settings = GroupSettings(offsets_retention_minutes=0)
    async with one_node(topics, settings=settings) as node:
        joined = await node.groups.consumer_heartbeat("g", beating("m", 0))
        assert joined.error == 0
        mine = committing("g", {("t", 0): 1, ("u", 0): 1}, member_id="m", epoch=joined.epoch)
        assert set((await node.groups.commit(mine)).values()) == {0}
        await sweep(node)
        _, found = await node.groups.fetch("g", None)
        assert list(found) == [("t", 0)]
        assert (await node.groups.describe_consumer("g")).error == 0


async def test_a_large_shard_is_swept_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.groups.expiry.PAGE_KEYS", 3)
    topics = SharedTopics(t=10)
    settings = GroupSettings(offsets_retention_minutes=0)
    async with one_node(topics, settings=settings) as node:
        await node.groups.commit(committing("g", {("t", number): 1 for number in range(10)}))
        await sweep(node)
        assert await names(node.groups) == []
