"""What the etcd backend alone has to stand: restarts, lost answers, compaction, several members."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest
import uvloop

from headwater.clock import SystemClock
from headwater.errors import StorageFull, StoreUnavailable, UnknownOutcome, WatchTrimmed
from headwater.meta.etcd import members
from headwater.meta.etcd.address import parse_etcd_address
from headwater.meta.etcd.compactor import EtcdCompactor
from headwater.meta.mirror import Mirror
from headwater.meta.store import KeyChange, MetadataStore, Values, Writes
from headwater.meta.urls import open_store
from peers.etcd import Etcd, start_etcd
from peers.process import free_port
from peers.toxiproxy import Proxy
from tests.support.meta.conformance import bind, increment, put, puts, take
from tests.support.metadata_servers.etcd import EtcdBackend, opened
from tests.support.metadata_servers.waiting import put_eventually

prefixes = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = start_etcd(tmp_path_factory.mktemp("etcd") / "data")
    yield server
    server.stop()


@pytest.fixture
def prefix() -> str:
    return f"etcd-{next(prefixes)}"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "CALL_SECONDS", 1.0)


@pytest.fixture
async def store(server: Etcd, prefix: str) -> AsyncIterator[MetadataStore]:
    async with opened(server.url(prefix)) as store:
        yield store


@pytest.fixture
async def through(store: MetadataStore, proxy: Proxy, prefix: str) -> AsyncIterator[MetadataStore]:
    """The same data as ``store`` has, by way of the proxy."""
    async with opened(f"etcd://{proxy.address}/{prefix}") as store:
        yield store


async def test_a_lost_answer_is_unknown_and_the_write_is_there(
    store: MetadataStore, through: MetadataStore, proxy: Proxy
) -> None:
    await put(through, a=b"1")
    toxic = proxy.swallow(direction="downstream")
    with pytest.raises(UnknownOutcome):
        await put(through, a=b"2")
    with pytest.raises(StoreUnavailable):
        await through.get("a")
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"2"
    proxy.remove(toxic)
    await put_eventually(through, a=b"3")


async def test_a_lost_request_is_unknown_and_nothing_is_there(
    store: MetadataStore, through: MetadataStore, proxy: Proxy
) -> None:
    await put(through, a=b"1")
    toxic = proxy.swallow(direction="upstream")
    with pytest.raises(UnknownOutcome):
        await put(through, a=b"2")
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"1"
    proxy.remove(toxic)
    await put_eventually(through, a=b"3")


async def test_a_server_that_is_gone_wrote_nothing(
    store: MetadataStore, through: MetadataStore, proxy: Proxy
) -> None:
    await put(through, n=b"1")
    proxy.cut()
    async with asyncio.timeout(10):
        while True:
            try:
                await through.transact(0, [], puts({"n": b"9"}))
            except UnknownOutcome:
                continue  # it was under way when the connection broke
            except StoreUnavailable:
                break
    with pytest.raises(StoreUnavailable):
        await through.transact(0, ["n"], increment("n"))
    with pytest.raises(StoreUnavailable):
        await through.session(ttl=5)
    entry = await store.get("n")
    assert entry is not None
    assert entry.value == b"1"
    proxy.heal()
    async with asyncio.timeout(10):
        while True:
            try:
                assert (await through.transact(0, ["n"], increment("n"))).result == 2
                break
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_a_closed_store_answers_no_more(server: Etcd, prefix: str) -> None:
    store = await open_store(server.url(prefix), SystemClock())
    start = (await store.scan("a", "b")).revision
    watch = asyncio.create_task(take(store.watch("a", start), 1))
    await asyncio.sleep(0.1)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await watch
    for call in (store.get("a"), store.scan("a", "b"), put(store, a=b""), store.session(5)):
        with pytest.raises(StoreUnavailable):
            await call


async def test_a_follower_reads_again_what_was_compacted_while_it_was_cut_off(
    server: Etcd, store: MetadataStore, through: MetadataStore, proxy: Proxy, prefix: str
) -> None:
    await put(store, **{"m/a": b"1", "m/b": b"1"})
    seen: dict[str, bytes] = {}
    new = asyncio.Event()

    def changed(values: Mapping[str, bytes]) -> None:
        seen.clear()
        seen.update(values)
        new.set()

    mirror = Mirror(through, "m/", changed)
    await mirror.load()
    following = asyncio.create_task(mirror.run())
    await put(store, **{"m/a": b"2"})
    async with asyncio.timeout(10):
        while seen.get("a") != b"2":
            new.clear()
            await new.wait()
    proxy.cut()
    await store.transact(0, [], lambda _: (Writes(puts={"m/c": b"3"}, deletes=["m/b"]), None))
    await EtcdBackend(server.url(prefix)).forget_changes()
    proxy.heal()
    async with asyncio.timeout(20):
        while seen != {"a": b"2", "c": b"3"}:
            new.clear()
            await new.wait()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_watch_that_is_quiet_keeps_up_with_compaction(
    server: Etcd,
    store: MetadataStore,
    through: MetadataStore,
    proxy: Proxy,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.meta.etcd.watches.PROGRESS_SECONDS", 0.2)
    start = await put(store, **{"w/a": b"1"})
    taking = asyncio.create_task(take(through.watch("w/", start), 1))
    for number in range(20):
        await put(store, elsewhere=b"%d" % number)
    await asyncio.sleep(1)
    await EtcdBackend(server.url(prefix)).forget_changes()
    proxy.cut()
    proxy.heal()
    await asyncio.sleep(0.5)
    revision = await put(store, **{"w/b": b"2"})
    assert await taking == [KeyChange("w/b", b"2", revision)]


async def test_of_many_processes_one_compacts_and_an_interval_is_kept(
    server: Etcd, store: MetadataStore, prefix: str
) -> None:
    cluster = members.EtcdMembers(parse_etcd_address(server.url(prefix)))
    compactors = [EtcdCompactor(cluster, prefix) for _ in range(3)]

    async def interval() -> int:
        revision = await put(store, **{"w/a": b"x"})
        for compactor in compactors:
            await compactor.compact_once()
        return revision

    first, second, third = [await interval() for _ in range(3)]
    with pytest.raises(WatchTrimmed):
        await take(store.watch("w/", 0), 1)
    with pytest.raises(WatchTrimmed):
        await take(store.watch("w/", first - 1), 1)
    changes = await take(store.watch("w/", second), 1)
    assert [change.revision for change in changes] == [third]
    await cluster.close()


async def test_a_transaction_arrives_in_one_piece_however_large_the_answer_is(
    store: MetadataStore,
) -> None:
    start = (await store.scan("w/", "w0")).revision
    for number in range(12):
        value = bytes([number]) * 15_000
        await store.transact(0, [], puts({f"w/{key:03d}": value for key in range(90)}))
    whole = 0
    async with asyncio.timeout(20):
        async for changes in store.watch("w/", start):
            by_revision: dict[int, int] = {}
            for change in changes:
                by_revision[change.revision] = by_revision.get(change.revision, 0) + 1
            assert set(by_revision.values()) == {90}
            whole += len(by_revision)
            if whole == 12:
                break


@pytest.mark.parametrize("position", [0, 1])
async def test_a_dead_member_is_passed_over(server: Etcd, prefix: str, position: int) -> None:
    addresses = [server.address]
    addresses.insert(position, f"127.0.0.1:{free_port()}")
    async with opened(f"etcd://{','.join(addresses)}/{prefix}") as store:
        session = await store.session(ttl=1)
        revision = (await bind(store, session, "e/a")).revision
        watch = store.watch("w/", revision)
        await put(store, **{"w/a": b"1"})
        assert len(await take(watch, 1)) == 1
        await asyncio.sleep(1.5)
        assert not session.lost
        assert await store.get("e/a") is not None
        await session.close()


async def test_a_member_that_falls_silent_is_left(
    server: Etcd, store: MetadataStore, proxy: Proxy, prefix: str
) -> None:
    async with opened(f"etcd://{proxy.address},{server.address}/{prefix}") as several:
        await put(several, a=b"1")
        proxy.swallow(direction="downstream")
        assert (await several.get("a")) is not None
        await put(several, a=b"2")


async def test_what_is_too_large_is_refused_with_what_to_do(store: MetadataStore) -> None:
    with pytest.raises(ValueError, match="1048577 bytes; this store accepts"):
        await put(store, a=bytes(2**20 + 1))
    with pytest.raises(ValueError, match="--max-request-bytes"):
        await put(store, a=bytes(2**20), b=bytes(2**20))
    with pytest.raises(ValueError, match="has 128 writes; this store accepts 127"):
        await put(store, **{f"k{n}": b"" for n in range(128)})
    assert (await store.scan("a", "z")).entries == []
    await put(store, **{f"k{n}": b"" for n in range(127)})


async def test_a_full_server_says_so_and_what_to_do(tmp_path: Path) -> None:
    server = start_etcd(tmp_path / "data", quota_bytes=4 << 20)
    try:
        async with opened(server.url()) as store:

            async def fill() -> None:
                for number in count():
                    key = f"k{number}"
                    # It is read as well: etcd may apply what it then says is too much.
                    await store.transact(0, [key], puts({key: bytes(2**20)}))

            with pytest.raises(StorageFull, match="alarm disarm"):
                await fill()
            assert len((await store.scan("a", "z")).entries) < 20
    finally:
        server.stop()


async def test_what_finds_the_server_full_has_landed_or_has_not_as_it_says(tmp_path: Path) -> None:
    """etcd applies a transaction that was proposed before its quota was reached, and says no."""
    server = start_etcd(tmp_path / "data", quota_bytes=4 << 20)
    landed: set[str] = set()
    full: set[str] = set()
    try:
        async with opened(server.url()) as store:

            async def fill(writer: int) -> None:
                for number in count():
                    key = f"k{writer}-{number}"
                    try:
                        await store.transact(0, [key], puts({key: bytes(20_000)}))
                    except StorageFull:
                        full.add(key)
                        return
                    landed.add(key)

            await asyncio.gather(*(fill(writer) for writer in range(24)))
            assert len(full) == 24
            assert {entry.key for entry in (await store.scan("k", "l")).entries} == landed
    finally:
        server.stop()


async def test_a_server_that_is_not_there_is_one_line(prefix: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match=f"etcd at {address}: "):
        await open_store(f"etcd://{address}/{prefix}", SystemClock())


def test_the_brokers_own_event_loop_carries_it(server: Etcd, prefix: str) -> None:
    async def main() -> int:
        async with opened(server.url(prefix)) as store:
            watch = store.watch("n", (await store.scan("n", "o")).revision)

            async def add() -> None:
                for _ in range(10):
                    await store.transact(0, ["n"], increment("n"))

            await asyncio.gather(*(add() for _ in range(10)))
            return len(await take(watch, 100))

    assert uvloop.run(main()) == 100


async def test_cached_values_alone_never_decide_a_transaction(
    server: Etcd, store: MetadataStore, prefix: str
) -> None:
    async with opened(server.url(prefix)) as other:
        await store.transact(0, ["n"], increment("n"))
        await other.transact(0, ["n"], increment("n"))
        # It saw 1 last: the verdict, the look and the write are on 2 all the same.
        seen = await store.transact(0, ["n"], lambda values: (Writes(), values["n"]))
        assert seen.result is not None
        assert seen.result.value == b"2"
        await other.transact(0, [], lambda _: (Writes(deletes=["n"]), None))

        def refuse(values: Values) -> tuple[Writes, None]:
            if values["n"] is not None:
                raise ValueError("it is there")
            return Writes(puts={"n": b"10"}), None

        await store.transact(0, ["n"], refuse)
        assert (await other.transact(0, ["n"], increment("n"))).result == 11
        with pytest.raises(ValueError, match="it is there"):
            await store.transact(0, ["n"], refuse)
        assert (await store.transact(0, ["n"], increment("n"))).result == 12


async def test_a_transaction_over_many_keys_is_not_starved(
    server: Etcd, store: MetadataStore, prefix: str
) -> None:
    keys = [f"k{number:03d}" for number in range(100)]
    commits = dict.fromkeys(keys[:3], 0)
    stop = asyncio.Event()

    async def hurry(key: str) -> None:
        async with opened(server.url(prefix)) as own:
            while not stop.is_set():
                await own.transact(0, [key], increment(key))
                commits[key] += 1

    def everything(values: Values) -> tuple[Writes, int]:
        return Writes(puts=dict.fromkeys(keys, b"0")), len(values)

    hurrying = [asyncio.create_task(hurry(key)) for key in commits]
    async with asyncio.timeout(30):
        for _ in range(20):
            before = dict(commits)
            while any(commits[key] == before[key] for key in commits):
                await asyncio.sleep(0.001)
            assert (await store.transact(0, keys, everything)).result == 100
    stop.set()
    await asyncio.gather(*hurrying)
