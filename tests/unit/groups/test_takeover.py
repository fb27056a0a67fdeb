"""Taking shards over: leases in motion, groups that cannot be loaded, and views that lag."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import pytest

from headwater.coordination.shards import Shard
from headwater.engine import Topic
from headwater.errors import (
    CoordinatorNotAvailable,
    NotCoordinator,
    StoreUnavailable,
    UnknownOutcome,
)
from headwater.groups.consumer import records as consumer
from headwater.groups.consumer.members import ConsumerFacts, CurrentAssignment
from headwater.groups.group import GROUPS
from headwater.groups.requests import ClientIdentity
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import CommitResult, Decide, Entry, Scan, T, Writes
from tests.support.groups.cluster import (
    CoordinatorCluster,
    Node,
    SharedTopics,
    committing,
    joining,
    simulated,
    syncing,
)


@dataclass(frozen=True)
class Fate:
    """What becomes of one transaction."""

    before: float = 0.0
    lands: bool = True
    after: float = 0.0
    lost: bool = False


class Scripted(MemoryStore):
    """A store whose next transactions have their fates."""

    def __init__(self, *, database: MemoryDatabase) -> None:
        super().__init__(database=database)
        self.fates: list[Fate] = []

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        fate = self.fates.pop(0) if self.fates else Fate()
        await asyncio.sleep(fate.before)
        committed = await super().transact(domain, keys, decide) if fate.lands else None
        await asyncio.sleep(fate.after)
        if committed is None or fate.lost:
            raise UnknownOutcome("lost")
        return committed


async def answers(node: Node, group: str) -> bool:
    """Whether it coordinates the group."""
    try:
        await node.groups.fetch(group, None)
    except (NotCoordinator, CoordinatorNotAvailable):
        return False
    return True


@simulated
async def test_a_lease_that_is_renewed_while_it_is_released_is_released(
    cluster: CoordinatorCluster,
) -> None:
    store = Scripted(database=cluster.database)
    first = await cluster.node(0, store)
    await asyncio.sleep(2)
    name = next(name for name in map(str, range(99)) if GROUPS.shard_of(name) % 2 == 1)
    await first.groups.commit(committing(name, {("t", 0): 1}))
    second = await cluster.node(1)
    await asyncio.sleep(5)
    assert first.groups.coordinator(name) == 0
    store.fates = [
        Fate(lands=False),
        Fate(before=0.1, after=0.3, lost=True),  # writes again, with a new lease
        Fate(before=0.2),  # the release
    ]
    commit = asyncio.create_task(first.groups.commit(committing(name, {("t", 0): 2})))
    await asyncio.sleep(0.05)
    await first.groups.hand_over()
    with pytest.raises(NotCoordinator):
        await commit
    async with asyncio.timeout(5):
        while not await answers(second, name):
            await asyncio.sleep(1)
    await first.stop()
    await second.stop()


class Counting(MemoryStore):
    """Counts transactions, which take a while."""

    transactions = 0

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await asyncio.sleep(0.002)
        self.transactions += 1
        return await super().transact(domain, keys, decide)


def two_holders() -> dict[str, bytes]:
    """Records that contradict each other: one partition, two members that own it."""
    group = consumer.GroupRecord(epoch=1, assignment_epoch=1)
    records = {consumer.GROUP: consumer.encode_group(group, {})}
    for member in ("a", "b"):
        current = CurrentAssignment(epoch=1, assigned={UUID(int=1): {0: 1}})
        records[consumer.member_name(member)] = consumer.encode_facts(
            member, ConsumerFacts(client=ClientIdentity("", ""))
        )
        records[consumer.current_name(member)] = consumer.encode_current(current)
    return records


def newer_format() -> dict[str, bytes]:
    return {consumer.GROUP: b"\x81\xa1v\x02"}


@pytest.mark.parametrize("records", [two_holders(), newer_format()], ids=["odd", "newer"])
def test_a_group_that_cannot_be_loaded_does_not_block_other_shards_or_the_store(
    records: dict[str, bytes],
) -> None:
    async def scenario(cluster: CoordinatorCluster) -> None:
        bad, later = (
            next(name for name in map(str, range(999)) if GROUPS.shard_of(name) == shard)
            for shard in (5, 9)
        )
        prefix = keys.records_of_group(5, bad)
        store = Counting(database=cluster.database)
        cluster.database.apply(Writes(puts={prefix + name: v for name, v in records.items()}))
        node = await cluster.node(1, store)
        await asyncio.sleep(11)
        assert store.transactions <= 4
        assert len(list(node.groups._owner.shards())) == GROUPS.count - 1
        assert await node.groups.commit(committing(later, {("t", 0): 7})) == {("t", 0): 0}
        with pytest.raises(CoordinatorNotAvailable):
            await node.groups.commit(committing(bad, {("t", 0): 7}))
        cluster.database.apply(Writes(deletes=[prefix + name for name in records]))
        await asyncio.sleep(6)
        assert len(list(node.groups._owner.shards())) == GROUPS.count
        await node.stop()

    simulated(scenario)()


class Lagging(MemoryStore):
    """A store whose scans are answered by a member that stopped to hear of changes."""

    old: dict[str, Entry] | None = None
    old_revision = 0

    def lag(self) -> None:
        self.old, self.old_revision = dict(self.database.entries), self.database.revision

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        if self.old is None:
            return await super().scan(start, end, limit=limit, reverse=reverse)
        found = [self.old[key] for key in sorted(self.old) if start <= key < end]
        return Scan(found[:limit], self.old_revision)


@simulated
async def test_groups_are_not_loaded_from_before_the_lease(cluster: CoordinatorCluster) -> None:
    first = await cluster.node(1)
    await asyncio.sleep(1)
    store = Lagging(database=cluster.database)
    store.lag()
    await first.groups.commit(committing("g", {("t", 0): 42}))
    await first.stop()
    second = await cluster.node(2, store)
    await asyncio.sleep(1)
    with pytest.raises(CoordinatorNotAvailable):
        await second.groups.fetch("g", [("t", 0)])
    store.old = None
    await asyncio.sleep(8)
    _, found = await second.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    await second.stop()


@simulated
async def test_offsets_are_not_read_from_before_the_last_commit(
    cluster: CoordinatorCluster,
) -> None:
    store = Lagging(database=cluster.database)
    node = await cluster.node(1, store)
    await node.groups.commit(committing("g", {("t", 0): 41}))
    store.lag()
    await node.groups.commit(committing("g", {("t", 0): 42}))
    with pytest.raises(CoordinatorNotAvailable):
        await node.groups.fetch("g", [("t", 0)])
    store.old = None
    _, found = await node.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    await node.stop()


@simulated
async def test_a_sweep_never_uses_a_state_from_before_the_last_commit(
    cluster: CoordinatorCluster,
) -> None:
    store = Lagging(database=cluster.database)
    node = await cluster.node(1, store)
    await asyncio.sleep(1)
    store.lag()
    await node.groups.commit(committing("g", {("t", 0): 42}))
    shard = node.groups._owner.owned_shard("g")
    assert shard is not None
    with pytest.raises(StoreUnavailable):
        await node.groups._sweeper.sweep(shard)
    store.old = None
    await node.groups._sweeper.sweep(shard)
    _, found = await node.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    await node.stop()


class Behind(SharedTopics):
    """A cache of topics that has not heard; an id that it lacks is looked up in the store."""

    def __init__(self, store: SharedTopics, **partitions: int) -> None:
        super().__init__(**partitions)
        self._store = store

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Topic:
        return self.get_by_id(topic_id) or await self._store.find_by_id(topic_id)


@simulated
async def test_offsets_of_a_recreated_topic_survive_a_cache_that_lags(
    cluster: CoordinatorCluster,
) -> None:
    behind = Behind(cluster.topics, t=4)
    cluster.topics.drop("t")
    cluster.topics.make("t", 4)
    first = await cluster.node(1)
    await first.groups.commit(committing("g", {("t", 0): 42}))
    await first.stop()
    second = await cluster.node(2, topics=behind)
    _, found = await second.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    for shard in list(second.groups._owner.shards()):
        await second.groups._sweeper.sweep(shard)
    _, found = await second.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    await second.stop()


class StoreOutOfReach(MemoryStore):
    """A store that can be told to refuse all transactions."""

    away = False

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if self.away:
            await asyncio.sleep(0.01)
            raise StoreUnavailable("away")
        return await super().transact(domain, keys, decide)


@simulated
async def test_deleted_offsets_are_not_reported_before_the_deletion_is_durable(
    cluster: CoordinatorCluster,
) -> None:
    store = StoreOutOfReach(database=cluster.database)
    node = await cluster.node(1, store)
    await node.groups.commit(committing("g", {("t", 0): 42}))
    store.away = True
    deletion = asyncio.create_task(node.groups.delete("g"))
    await asyncio.sleep(0.1)
    with pytest.raises(CoordinatorNotAvailable):
        await node.groups.fetch("g", [("t", 0)])
    with pytest.raises(CoordinatorNotAvailable):
        await deletion
    store.away = False
    await asyncio.sleep(8)
    _, found = await node.groups.fetch("g", [("t", 0)])
    assert found["t", 0].offset == 42
    await node.stop()


async def test_a_recreated_group_survives_the_deletion_of_its_predecessor() -> None:
    store = MemoryStore()
    shard = Shard(GROUPS, 0, b"", 0, await store.session(10))
    old = shard.entry("g")
    shard.forget(old)
    new = shard.entry("g")
    shard.forget(old)
    assert shard.entries == {"g": new}
    await store.close()


@simulated
async def test_a_renewal_that_the_watch_reports_first_does_not_lose_the_shard(
    cluster: CoordinatorCluster,
) -> None:
    store = Scripted(database=cluster.database)
    node = await cluster.node(1, store)
    await asyncio.sleep(1)
    me = (await node.groups.join("g", joining())).member_id
    lease = cluster.database.entries[GROUPS.lease_key(GROUPS.shard_of("g"))].value
    store.fates = [Fate(lands=False), Fate(after=2.0)]
    assert (await node.groups.sync("g", syncing(me, 1, **{me: b"all"}))).assignment == b"all"
    assert cluster.database.entries[GROUPS.lease_key(GROUPS.shard_of("g"))].value != lease
    await node.stop()
