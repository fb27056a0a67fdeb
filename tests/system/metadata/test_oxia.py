"""What the Oxia backend alone has to stand: committers that stop between the two steps."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from random import Random
from typing import Any

import pytest
import uvloop

from headwater.clock import SystemClock
from headwater.errors import SessionLost, StoreUnavailable, UnknownOutcome, WatchTrimmed
from headwater.meta.grpc_channels import BlockingChannel, GrpcMethod
from headwater.meta.memory import MemoryStore
from headwater.meta.oxia import OxiaStore, shard, trimmer
from headwater.meta.oxia.address import parse_oxia_address
from headwater.meta.oxia.keyspace import Head
from headwater.meta.oxia.methods import WRITE
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.urls import open_store
from peers.oxia import Oxia, start_oxia
from peers.process import free_port
from peers.toxiproxy import Proxy
from tests.support.meta.conformance import increment, put, take
from tests.support.metadata_servers.oxia import opened
from tests.support.metadata_servers.waiting import put_eventually

prefixes = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oxia]:
    server = start_oxia(tmp_path_factory.mktemp("oxia") / "data")
    yield server
    server.stop()


@pytest.fixture
def prefix() -> str:
    return f"oxia-{next(prefixes)}"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "CALL_SECONDS", 1.0)


@pytest.fixture
def url(server: Oxia, prefix: str) -> str:
    return f"{server.url()}/{prefix}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[OxiaStore]:
    async with opened(url) as store:
        yield store


@pytest.fixture
async def other(url: str) -> AsyncIterator[OxiaStore]:
    async with opened(url) as store:
        yield store


class StoppedCommitter:
    """A committer that stops between the two steps until it is released."""

    def __init__(self, store: OxiaStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proposed = asyncio.Event()
        self.go = asyncio.Event()
        apply = store._committer._apply

        async def wait(head: Head) -> pb.WriteResponse:
            self.proposed.set()
            await self.go.wait()
            return await apply(head)

        monkeypatch.setattr(store._committer, "_apply", wait)


def random_writes(random: Random) -> Callable[[Values], tuple[Writes, None]]:
    """Puts, deletes and range deletes over few keys, so that many are deleted and made again."""
    keys = [f"k/{number:02d}" for number in range(12)]
    writes = Writes(
        puts={key: random.randbytes(4) for key in random.sample(keys, random.randrange(4))},
        deletes=random.sample(keys, random.randrange(4)),
    )
    if random.random() < 0.3:
        start, end = sorted(random.sample(keys, 2))
        writes.delete_range(start, end)
    return lambda _values: (writes, None)


async def contents(store: MetadataStore) -> list[tuple[str, bytes]]:
    return [(entry.key, entry.value) for entry in (await store.scan("k/", "k0")).entries]


@pytest.mark.parametrize("seed", range(5))
async def test_a_committer_that_wakes_up_late_changes_nothing(
    store: OxiaStore, other: OxiaStore, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    model = MemoryStore()

    async def both(decide: Callable[[Values], tuple[Writes, None]], on: MetadataStore) -> None:
        await model.transact(0, [], decide)
        await on.transact(0, [], decide)

    for _ in range(20):
        await both(random_writes(random), other)
    stopped = StoppedCommitter(store, monkeypatch)
    start = (await other.scan("k/", "k0")).revision
    everything = Writes(puts={f"k/{number:02d}": b"late" for number in range(0, 12, 2)})
    everything.delete_range("k/00", "k/11")
    late = asyncio.create_task(both(lambda _values: (everything, None), store))
    await stopped.proposed.wait()
    before = await contents(other)
    assert (b"late" in dict(before).values()) is False
    for _ in range(100):
        await both(random_writes(random), other)
    expected = await contents(model)
    assert await contents(other) == expected
    stopped.go.set()
    await late
    assert await contents(other) == expected
    assert await contents(store) == expected
    # The others had applied it before their own commits, and watches delivered it once.
    replayed = dict(before)
    revisions = []
    async with asyncio.timeout(20):
        async for changes in other.watch("k/", start):
            for change in changes:
                revisions.append(change.revision)
                if change.value is None:
                    replayed.pop(change.key, None)
                else:
                    replayed[change.key] = change.value
            if revisions[-1] >= (await other.scan("k/", "k0")).revision:
                break
    assert sorted(replayed.items()) == expected
    assert revisions == sorted(revisions)
    assert revisions[0] == start + 1


async def test_a_commit_whose_committer_dies_is_applied_by_the_next(
    store: OxiaStore, other: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, n=b"1", gone=b"")
    stopped = StoppedCommitter(store, monkeypatch)
    dying = asyncio.create_task(
        store.transact(0, [], lambda _: (Writes(puts={"n": b"2"}, deletes=["gone"]), None))
    )
    await stopped.proposed.wait()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    entry = await other.get("n")
    assert entry is not None
    assert entry.value == b"1"
    assert (await other.transact(0, ["n"], increment("n"))).result == 3
    assert await other.get("gone") is None


async def test_a_lost_answer_is_unknown_and_a_lost_connection_recovers(
    store: OxiaStore, proxy: Proxy, prefix: str
) -> None:
    async with opened(f"oxia://{proxy.address}/default/{prefix}") as through:
        await put(through, n=b"1")
        toxic = proxy.swallow(direction="downstream")
        with pytest.raises(StoreUnavailable):
            await through.get("n")
        with pytest.raises(StoreUnavailable):  # its first look is not answered
            await through.transact(0, ["n"], increment("n"))
        proxy.remove(toxic)
        await put_eventually(through, n=b"1")
        propose = through._committer._propose

        async def swallowed(head: Head, version: int) -> int | None:
            proxy.swallow(direction="downstream")
            return await propose(head, version)

        through._committer._propose = swallowed  # type: ignore[method-assign]
        with pytest.raises(UnknownOutcome):
            await through.transact(0, ["n"], increment("n"))
        through._committer._propose = propose  # type: ignore[method-assign]
        proxy.heal()
        assert (await store.transact(0, ["n"], increment("n"))).result == 3
        await put_eventually(through, n=b"4")
        proxy.cut()
        async with asyncio.timeout(10):
            while True:
                try:
                    await put(through, n=b"5")
                except UnknownOutcome:
                    continue
                except StoreUnavailable:
                    break
        proxy.heal()
        await put_eventually(through, n=b"6")


async def test_a_watch_goes_on_after_the_connection_was_cut(
    store: OxiaStore, proxy: Proxy, prefix: str
) -> None:
    async with opened(f"oxia://{proxy.address}/default/{prefix}") as through:
        start = await put(store, **{"w/a": b"1"})
        taking = asyncio.create_task(take(through.watch("w/", start), 3))
        await put(store, **{"w/b": b"2"})
        await asyncio.sleep(0.2)
        proxy.cut()
        await put(store, **{"w/c": b"3"})
        await asyncio.sleep(0.5)
        proxy.heal()
        await put(store, **{"w/d": b"4"})
        assert [change.key for change in await taking] == ["w/b", "w/c", "w/d"]


async def test_old_commits_and_the_marks_of_deleted_keys_are_forgotten(
    url: str, store: OxiaStore, other: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimmer, "KEPT_MS", 0)
    monkeypatch.setattr(trimmer, "COMMITS_PER_TRIM", 10)
    await put(store, **{f"k/{number}": b"x" for number in range(5)})
    first = await put(store, kept=b"x")
    await store.transact(0, [], lambda _: (Writes(range_deletes=[("k/", "k0")]), None))

    async def records() -> list[str]:
        layout = store._keyspace
        start, end = layout.path("k/"), layout.path("k0")
        return [record.key async for record in store._shard.scan(start, end)]

    assert len(await records()) == 5
    await put(store, **{"k/3": b"again"})
    async with asyncio.timeout(20):
        # Its mark goes first, then what the log has of it.
        while await records() != [store._keyspace.path("k/3")]:
            await put(other, n=b"")
            await put(store, n=b"")

    async def oldest() -> int:
        logs, layout = (
            store._shard.scan(store._keyspace.logs, store._keyspace.last_log),
            store._keyspace,
        )
        return min([layout.log_number(record.key) async for record in logs])

    async with asyncio.timeout(20):
        while await oldest() <= first:
            await asyncio.sleep(0.02)
    async with opened(url) as late:
        with pytest.raises(WatchTrimmed):
            await take(late.watch("k", first - 1), 1)
    assert await contents(store) == [("k/3", b"again")]
    kept = await other.get("kept")
    assert kept is not None
    revision = (await other.scan("k/", "k0")).revision
    watch = other.watch("k/", revision)
    await put(store, **{"k/9": b"1"})
    assert [change.key for change in await take(watch, 1)] == ["k/9"]


async def test_many_processes_lose_no_increment(url: str, store: OxiaStore) -> None:
    async def add() -> list[int]:
        async with opened(url) as own:
            return [(await own.transact(0, ["n"], increment("n"))).result for _ in range(10)]

    results = await asyncio.gather(*(add() for _ in range(6)))
    assert sorted(number for some in results for number in some) == list(range(1, 61))


async def test_a_server_that_is_not_there_is_one_line() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match=f"Oxia at {address}: "):
        await open_store(f"oxia://{address}/default", SystemClock())


async def test_a_dead_server_is_passed_over(server: Oxia, prefix: str) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with opened(f"oxia://{dead},{server.address}/default/{prefix}") as store:
        await put(store, a=b"1")


async def test_an_unknown_namespace_is_one_line(server: Oxia) -> None:
    with pytest.raises(StoreUnavailable, match="namespace not found"):
        await open_store(server.url("nowhere"), SystemClock())


async def test_a_closed_store_answers_no_more(url: str) -> None:
    store = await OxiaStore.open(parse_oxia_address(url))
    watch = asyncio.create_task(take(store.watch("a", 0), 1))
    await asyncio.sleep(0.1)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await watch
    for call in (store.get("a"), store.scan("a", "b"), put(store, a=b""), store.session(5)):
        with pytest.raises(StoreUnavailable):
            await call


def test_the_brokers_own_event_loop_carries_it(url: str) -> None:
    async def main() -> int:
        async with opened(url) as store:
            watch = store.watch("n", (await store.scan("n", "o")).revision)

            async def add() -> None:
                for _ in range(5):
                    await store.transact(0, ["n"], increment("n"))

            await asyncio.gather(*(add() for _ in range(10)))
            return len(await take(watch, 50))

    assert uvloop.run(main()) == 50


async def test_a_session_is_not_renewed_by_a_server_that_cannot_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was deposed goes on to take heartbeats; its writes find no quorum."""
    async with opened(url) as store:
        session = await store.session(ttl=2)
        await asyncio.sleep(3)
        assert not session.lost

        def refuse(
            _peer: BlockingChannel, method: GrpcMethod[Any, Any], *_: Any, **__: Any
        ) -> None:
            assert method is WRITE
            raise UnknownOutcome("no quorum")

        monkeypatch.setattr(BlockingChannel, "call", refuse)
        async with asyncio.timeout(5):
            await session.wait_lost()
        monkeypatch.undo()


async def test_a_session_that_oxia_ended_is_not_renewed(url: str) -> None:
    async with opened(url) as store:
        name, number = await store._session_records.open(10)
        store._renewals.renew(name, number, within=5)
        await store._session_records.end(name, number)
        with pytest.raises(SessionLost):
            store._renewals.renew(name, number, within=5)
