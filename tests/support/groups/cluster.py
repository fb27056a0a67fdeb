"""Coordinators on one memory database, with brokers and topics that a test can change."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from uuid import UUID

from headwater.clock import Clock, SystemClock
from headwater.coordination.leases import Lease
from headwater.engine import ConfigChange, Topic
from headwater.errors import UnknownTopicId, UnknownTopicOrPartition
from headwater.groups.configs import GroupConfigs
from headwater.groups.coordinator import GroupCoordinator
from headwater.groups.group import GROUPS
from headwater.groups.requests import (
    ClientIdentity,
    CommitRequest,
    CommittedOffset,
    ConsumerHeartbeatRequest,
    JoinRequest,
    SyncRequest,
)
from headwater.groups.settings import GroupSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import MetadataStore, Session
from headwater.meta.values import decode
from headwater.telemetry.metrics import Metrics
from tests.support.meta.faulty import FaultyStore
from tests.support.simulation.loop import SimulatedLoop, run_simulated

_SEEDS = count()
SETTINGS = GroupSettings(initial_rebalance_delay_ms=0)


class SharedTopics:
    """Topics in a dictionary, known to all brokers at once."""

    def __init__(self, **partitions: int) -> None:
        self._by_name: dict[str, Topic] = {}
        self._made = 0
        self.version = 0
        for name, number in partitions.items():
            self.make(name, number)

    def make(self, name: str, partitions: int) -> Topic:
        self._made += 1
        self.version += 1
        topic = Topic(name, UUID(int=self._made), tuple(range(partitions)), {})
        self._by_name[name] = topic
        return topic

    def drop(self, name: str) -> None:
        self.version += 1
        del self._by_name[name]

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: UUID) -> Topic | None:
        return next((topic for topic in self._by_name.values() if topic.id == topic_id), None)

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    async def find(self, name: str, *, partition: int = 0) -> Topic:
        if name not in self._by_name:
            raise UnknownTopicOrPartition(name)
        return self._by_name[name]

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Topic:
        topic = self.get_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId(str(topic_id))
        return topic

    async def all(self) -> Sequence[Topic]:
        return list(self._by_name.values())

    async def stored_names(self) -> Collection[str]:
        return self.names()

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        return self.make(name, partitions)

    async def delete(self, name: str) -> Topic:
        return self._by_name.pop(name)

    async def add_partitions(self, name: str, total: int) -> Topic:
        raise NotImplementedError

    async def change_configs(self, name: str, change: ConfigChange) -> Topic:
        raise NotImplementedError


class LivingBrokers:
    """Which brokers live, the same for all of them."""

    def __init__(self) -> None:
        self.members: dict[int, MembershipView] = {}

    def chosen(self, shard: int) -> int:
        live = sorted(self.members)
        return live[shard % len(live)]

    def changed(self) -> None:
        for member in self.members.values():
            for listener in member.listeners:
                listener()


class MembershipView:
    """One broker as its coordinator sees the cluster."""

    def __init__(self, brokers: LivingBrokers, node_id: int, *, exclusive: bool = False) -> None:
        self._brokers = brokers
        self.node_id = node_id
        self.exclusive = exclusive
        self.session: Session | None = None
        self.listeners: list[Callable[[], None]] = []

    def chosen(self, shard: int) -> int:
        return self._brokers.chosen(shard)

    def lives(self, broker_id: int) -> bool:
        return broker_id in self._brokers.members

    def listen(self, changed: Callable[[], None]) -> None:
        self.listeners.append(changed)

    async def enter(self, meta: MetadataStore, ttl: float) -> None:
        self.session = await meta.session(ttl)
        self._brokers.members[self.node_id] = self
        self._brokers.changed()

    def depart(self) -> None:
        self._brokers.members.pop(self.node_id, None)
        self._brokers.changed()


class Node:
    """A coordinator and the parts that it needs."""

    def __init__(
        self,
        brokers: LivingBrokers,
        node_id: int,
        meta: MetadataStore,
        topics: SharedTopics,
        *,
        settings: GroupSettings = SETTINGS,
        clock: Clock | None = None,
        rng: Random | None = None,
        ttl: float = 10.0,
        margin: float = 0.5,
        exclusive: bool = False,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.meta = meta
        self.ttl = ttl
        self.member = MembershipView(brokers, node_id, exclusive=exclusive)
        self.metrics = Metrics()
        self.groups = GroupCoordinator(
            meta=meta,
            members=self.member,
            topics=topics,
            clock=clock if clock is not None else SystemClock(),
            rng=rng if rng is not None else Random(next(_SEEDS)),
            settings=settings,
            metrics=self.metrics,
            configs=configs,
            margin=margin,
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.member.enter(self.meta, self.ttl)
        self._task = asyncio.create_task(self.groups.run())

    async def stop(self) -> None:
        """Stop in an orderly way, like a broker."""
        await self.groups.close()
        await self.crash()
        if self.member.session is not None:
            await self.member.session.close()

    async def crash(self) -> None:
        """Do nothing any more; the session stays until it runs out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.member.depart()


class CoordinatorCluster:
    """Nodes on one database, on simulated time."""

    def __init__(self) -> None:
        self.brokers = LivingBrokers()
        self.database = MemoryDatabase()
        self.topics = SharedTopics(t=4)

    async def node(
        self,
        node_id: int,
        meta: MetadataStore | None = None,
        *,
        topics: SharedTopics | None = None,
        settings: GroupSettings = SETTINGS,
        exclusive: bool = False,
    ) -> Node:
        """Start a node; its own view of the database and of the topics may be given."""
        if meta is None:
            meta = FaultyStore(MemoryStore(database=self.database), Random(node_id))
        seen = self.topics if topics is None else topics
        node = Node(self.brokers, node_id, meta, seen, settings=settings, exclusive=exclusive)
        await node.start()
        return node

    def holders(self) -> dict[int, int]:
        """The shards' holders as the store has them."""
        return {
            number: decode(Lease, entry.value).broker
            for number in range(GROUPS.count)
            if (entry := self.database.entries.get(GROUPS.lease_key(number))) is not None
        }


def simulated(test: Callable[[CoordinatorCluster], Awaitable[None]]) -> Callable[[], None]:
    """Run a test on simulated time, with a cluster of its own."""

    async def main() -> None:
        await test(CoordinatorCluster())

    def run() -> None:
        run_simulated(main(), SimulatedLoop())

    run.__name__ = run.__qualname__ = test.__name__
    return run


@asynccontextmanager
async def one_node(
    topics: SharedTopics,
    *,
    meta: MetadataStore | None = None,
    settings: GroupSettings = SETTINGS,
    clock: Clock | None = None,
) -> AsyncIterator[Node]:
    """A cluster of one; its store may be given."""
    store = meta if meta is not None else MemoryStore()
    node = Node(LivingBrokers(), 1, store, topics, settings=settings, clock=clock)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def stores(count: int) -> list[MemoryStore]:
    """Several processes' views of one database."""
    database = MemoryDatabase()
    return [MemoryStore(database=database) for _ in range(count)]


def joining(member_id: str = "", **more: object) -> JoinRequest:
    values: dict[str, object] = {
        "client": ClientIdentity("app", "/127.0.0.1"),
        "member_id": member_id,
        "instance_id": None,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": (("range", b""),),
        "requires_known_member_id": False,
        "supports_skipping_assignment": True,
    }
    return JoinRequest(**{**values, **more})  # type: ignore[arg-type]


def syncing(member_id: str, generation: int, **assignments: bytes) -> SyncRequest:
    return SyncRequest(
        member_id=member_id,
        instance_id=None,
        generation=generation,
        protocol_type=None,
        protocol_name=None,
        assignments=assignments,
    )


def beating(member_id: str, epoch: int, *, topic: str = "t") -> ConsumerHeartbeatRequest:
    """A heartbeat of a member that reads one topic and says all that it has."""
    return ConsumerHeartbeatRequest(
        client=ClientIdentity("app", "/127.0.0.1"),
        member_id=member_id,
        epoch=epoch,
        rebalance_timeout_ms=60_000,
        topic_names=(topic,),
        owned={} if epoch >= 0 else None,
    )


def committing(
    group: str, offsets: Mapping[tuple[str, int], int], *, member_id: str = "", epoch: int = -1
) -> CommitRequest:
    return CommitRequest(
        group=group,
        member_id=member_id,
        epoch=epoch,
        version=9,
        offsets={where: CommittedOffset(offset=offset) for where, offset in offsets.items()},
    )
