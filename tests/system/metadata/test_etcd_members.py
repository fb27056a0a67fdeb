"""A cluster of three members that loses its leader in the middle of the work."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.etcd import members
from headwater.meta.etcd import store as etcd_store
from headwater.meta.sessions import RENEWALS_PER_TTL
from headwater.meta.store import Decide, Entry, KeyChange, MetadataStore, Session, Values, Writes
from peers.etcd import EtcdCluster, start_etcd_cluster
from tests.support.meta.conformance import bind
from tests.support.metadata_servers.etcd import opened

KEYS = ("w/", "w0")
TTL = 8.0
SOME = 20
"""Transactions of each writer before and after whatever happens to a member."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = start_etcd_cluster(tmp_path_factory.mktemp("etcd"))
    yield cluster
    cluster.stop()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that the killed member leaves without an answer end during the election."""
    monkeypatch.setattr(members, "CALL_SECONDS", 1.0)
    monkeypatch.setattr(etcd_store, "CALL_SECONDS", 0.5)


def once(counter: str, key: str, attempt: int) -> Decide[bool]:
    """Count and leave a mark, unless an attempt did whose answer was lost: whether this one did.

    The mark names the attempt: nobody else would have written it.
    """

    def decide(values: Values) -> tuple[Writes, bool]:
        if values[key] is not None:
            return Writes(), False
        counted = values[counter]
        count = 1 if counted is None else int(counted.value) + 1
        return Writes(puts={counter: b"%d" % count, key: b"%d" % attempt}), True

    return decide


@dataclass(slots=True)
class CounterWriter:
    """Transactions one after the other, each tried until it is known to stand."""

    store: MetadataStore
    name: str
    done: dict[str, int] = field(default_factory=dict)
    """By key, the revision of what was acknowledged."""
    found: dict[str, int] = field(default_factory=dict)
    """By key, the attempt after which an earlier one, of unknown outcome, was found to stand."""
    failed: dict[tuple[str, int], type[Exception]] = field(default_factory=dict)
    stopping: bool = False

    @property
    def counter(self) -> str:
        return f"n/{self.name}"

    @property
    def prefix(self) -> str:
        return f"{KEYS[0]}{self.name}/"

    async def run(self) -> None:
        while not self.stopping:
            await self._write(f"{self.prefix}{len(self.done) + len(self.found):05d}")

    async def some_more(self) -> None:
        """Wait until ``SOME`` further transactions are acknowledged."""
        wanted = len(self.done) + SOME
        while len(self.done) < wanted:
            await asyncio.sleep(0.02)

    async def _write(self, key: str, attempt: int = 1) -> None:
        while True:
            try:
                decide = once(self.counter, key, attempt)
                committed = await self.store.transact(0, [self.counter, key], decide)
            except (StoreUnavailable, UnknownOutcome) as error:
                self.failed[key, attempt] = type(error)
                attempt += 1
                await asyncio.sleep(0.02)
            else:
                break
        if committed.result:
            self.done[key] = committed.revision
        else:
            self.found[key] = attempt

    async def check(self, entries: list[Entry]) -> None:
        """The answers that it got match the store's content of its own keys."""
        there = {entry.key: entry for entry in entries if entry.key.startswith(self.prefix)}
        counted = await self.store.get(self.counter)
        assert counted is not None
        assert int(counted.value) == len(there), "a transaction stands in part, or twice"
        assert there.keys() == self.done.keys() | self.found.keys()
        for key, revision in self.done.items():
            assert there[key].revision == revision
        for key, entry in there.items():
            outcome = self.failed.get((key, int(entry.value)))
            assert outcome in ((UnknownOutcome,) if key in self.found else (None,))


@dataclass(slots=True)
class StoreClient:
    """All that one process does with a store: it writes, follows, and has a session."""

    store: MetadataStore
    session: Session
    writers: list[CounterWriter]
    changes: list[KeyChange] = field(default_factory=list)

    async def follow(self, after: int) -> None:
        async for some in self.store.watch(KEYS[0], after):
            self.changes.extend(some)

    async def renewed(self, since: float) -> None:
        """Wait until a renewal of the session that began after ``since`` has succeeded."""
        loop = asyncio.get_running_loop()
        while loop.time() + self.session.remaining < since + TTL:
            assert not self.session.lost
            await asyncio.sleep(0.05)
        assert await self.store.get(bound_key(self.session)) is not None


def bound_key(session: Session) -> str:
    return f"e/{session.id}"


@asynccontextmanager
async def at_work(cluster: EtcdCluster) -> AsyncIterator[list[StoreClient]]:
    """A client for each member that it asks first; at the end their writers have ended."""
    async with AsyncExitStack() as stack:
        clients = []
        for number, member in enumerate(cluster.members):
            store = await stack.enter_async_context(opened(cluster.url("members", first=member)))
            session = await store.session(TTL)
            await bind(store, session, bound_key(session))
            writers = [CounterWriter(store, f"{number}{letter}") for letter in "abcdefgh"]
            clients.append(StoreClient(store, session, writers))
            # Renewals are apart by less than an election takes: one of them meets it.
            await asyncio.sleep(TTL / RENEWALS_PER_TTL / len(cluster.members))
        start = (await clients[0].store.scan(*KEYS)).revision
        async with asyncio.TaskGroup() as tasks:
            following = [tasks.create_task(client.follow(start)) for client in clients]
            everyone = [writer for client in clients for writer in client.writers]
            writing = [tasks.create_task(writer.run()) for writer in everyone]
            yield clients
            for writer in everyone:
                writer.stopping = True
            await asyncio.gather(*writing)
            await check(clients)
            for task in following:
                task.cancel()


async def go_on(clients: list[StoreClient]) -> None:
    """Wait until every writer has written some more."""
    async with asyncio.timeout(20):
        await asyncio.gather(*(each.some_more() for one in clients for each in one.writers))


async def check(clients: list[StoreClient]) -> None:
    """Compare the answers and changes that each client got with the store's content."""
    entries = (await clients[0].store.scan(*KEYS)).entries
    for writer in (writer for client in clients for writer in client.writers):
        await writer.check(entries)
    expected = [(each.key, each.revision) for each in sorted(entries, key=lambda e: e.revision)]
    for client in clients:
        async with asyncio.timeout(10):
            while len(client.changes) < len(expected):
                await asyncio.sleep(0.02)
        assert [(change.key, change.revision) for change in client.changes] == expected


async def test_a_killed_leader_takes_nothing_with_it_and_comes_back(cluster: EtcdCluster) -> None:
    async with at_work(cluster) as clients:
        await go_on(clients)
        # The second time, most members are there only with the one that has come back.
        for _ in range(2):
            leader = await asyncio.to_thread(cluster.leader)
            await asyncio.to_thread(leader.kill)
            killed = asyncio.get_running_loop().time()
            await go_on(clients)
            await asyncio.gather(*(client.renewed(killed) for client in clients))
            assert await asyncio.to_thread(cluster.leader) is not leader
            await asyncio.to_thread(leader.start)
            await go_on(clients)
