"""Transactions of one process that travel as one commit on Oxia."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from headwater.errors import UnknownOutcome
from headwater.meta.oxia import OxiaStore
from headwater.meta.oxia.keyspace import Head
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.store import Values, Writes
from peers.oxia import Oxia, start_oxia
from tests.support.meta.conformance import increment, put
from tests.support.metadata_servers.oxia import opened

prefixes = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oxia]:
    server = start_oxia(tmp_path_factory.mktemp("oxia-convoy") / "data")
    yield server
    server.stop()


@pytest.fixture
async def store(server: Oxia) -> AsyncIterator[OxiaStore]:
    async with opened(f"{server.url()}/convoy-{next(prefixes)}") as store:
        yield store


class HeldCommits:
    """Keeps the next commit between its steps, and counts what is proposed."""

    def __init__(self, store: OxiaStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heads: list[Head] = []
        self.proposed = asyncio.Event()
        self.go = asyncio.Event()
        propose, apply = store._committer._propose, store._committer._apply

        async def note(head: Head, version: int) -> int | None:
            self.heads.append(head)
            return await propose(head, version)

        async def wait(head: Head) -> pb.WriteResponse:
            self.proposed.set()
            await self.go.wait()
            return await apply(head)

        monkeypatch.setattr(store._committer, "_propose", note)
        monkeypatch.setattr(store._committer, "_apply", wait)


def refuse(_values: Values) -> tuple[Writes, None]:
    raise LookupError("no such thing")


async def test_what_waits_for_a_turn_travels_as_one_commit(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldCommits(store, monkeypatch)
    first = asyncio.create_task(store.transact(0, ["n"], increment("n")))
    await held.proposed.wait()
    others = [
        asyncio.create_task(store.transact(0, [f"k{number}"], increment(f"k{number}")))
        for number in range(20)
    ]
    reader = asyncio.create_task(store.transact(0, ["n"], lambda seen: (Writes(), seen["n"])))
    await asyncio.sleep(0)
    held.go.set()
    done = await asyncio.gather(first, *others)
    assert [each.result for each in done] == [1] * 21
    assert [len(head.writes) for head in held.heads] == [1, 20]
    assert {each.revision for each in done[1:]} == {done[0].revision + 1}
    read = (await reader).result
    assert read is not None
    assert read.value == b"1"
    for number in range(20):
        entry = await store.get(f"k{number}")
        assert entry is not None
        assert entry.value == b"1"


async def test_transactions_on_the_same_keys_run_in_order(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(seen: Values) -> tuple[Writes, bytes]:
        value = b"" if (there := seen["a"]) is None else there.value
        return Writes(puts={"b": value}), value

    held = HeldCommits(store, monkeypatch)
    first = asyncio.create_task(put(store, a=b"1"))
    await held.proposed.wait()
    read = asyncio.create_task(store.transact(0, ["a"], move))
    write = asyncio.create_task(put(store, a=b"2"))
    again = asyncio.create_task(store.transact(0, ["a"], move))
    await asyncio.sleep(0)
    held.go.set()
    await asyncio.gather(first, write)
    assert ((await read).result, (await again).result) == (b"1", b"2")
    assert (await read).revision < (await again).revision
    assert [[write.key for write in head.writes] for head in held.heads] == [
        ["a"],
        ["b"],
        ["a"],
        ["b"],
    ]


@pytest.mark.parametrize("seed", range(3))
async def test_concurrent_transactions_are_serialised(server: Oxia, seed: int) -> None:
    """Two stores that commit at once give each number once."""
    url = f"{server.url()}/convoy-many-{seed}"
    async with opened(url) as one, opened(url) as two:
        keys = [f"c{number % 5}" for number in range(60)]
        done = await asyncio.gather(
            *(
                (one if place % 2 else two).transact(0, [key], increment(key))
                for place, key in enumerate(keys)
            )
        )
        for key in set(keys):
            got = [each.result for each, asked in zip(done, keys, strict=True) if asked == key]
            assert sorted(got) == list(range(1, 13))


async def test_only_the_failing_transaction_of_a_batch_raises(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldCommits(store, monkeypatch)
    first = asyncio.create_task(put(store, a=b""))
    await held.proposed.wait()
    before = asyncio.create_task(store.transact(0, ["b"], increment("b")))
    failing = asyncio.create_task(store.transact(0, ["c"], refuse))
    behind = asyncio.create_task(store.transact(0, ["d"], increment("d")))
    await asyncio.sleep(0)
    held.go.set()
    with pytest.raises(LookupError, match="no such thing"):
        await failing
    await first
    assert ((await before).result, (await behind).result) == (1, 1)


async def test_the_other_transactions_of_an_interrupted_commit_get_an_unknown_outcome(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldCommits(store, monkeypatch)
    held.go.set()
    await put(store, a=b"")
    blocker = asyncio.create_task(store._committer._commit_lock.acquire())
    await blocker
    leader = asyncio.create_task(store.transact(0, ["b"], increment("b")))
    taken = asyncio.create_task(store.transact(0, ["c"], increment("c")))
    given_up = asyncio.create_task(store.transact(0, ["d"], increment("d")))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.sleep(0)
    held.go.clear()
    held.proposed.clear()
    store._committer._commit_lock.release()
    await held.proposed.wait()
    leader.cancel()
    with pytest.raises(UnknownOutcome, match="was interrupted"):
        await taken
    held.go.set()
    # It is committed nevertheless, and the next commit applies it first.
    assert (await store.transact(0, ["c"], increment("c"))).result == 2
    assert await store.get("d") is None
    assert not store._committer._waiting
    await asyncio.gather(leader, given_up, return_exceptions=True)
