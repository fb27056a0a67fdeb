"""The commit cache: which keys a committer on Oxia reads after its own last commit."""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count

import pytest

from headwater.meta.oxia import OxiaStore, commit_cache
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import Head
from headwater.meta.store import Values, Writes
from peers.oxia import Oxia, start_oxia
from tests.support.meta.conformance import increment, put
from tests.support.metadata_servers.oxia import opened

prefixes = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oxia]:
    server = start_oxia(tmp_path_factory.mktemp("oxia-recall") / "data")
    yield server
    server.stop()


@pytest.fixture
def url(server: Oxia) -> str:
    return f"{server.url()}/recall-{next(prefixes)}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[OxiaStore]:
    async with opened(url) as store:
        yield store


@pytest.fixture
async def other(url: str) -> AsyncIterator[OxiaStore]:
    async with opened(url) as store:
        yield store


def count_reads(store: OxiaStore, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    reads: list[Sequence[str]] = []
    read = store._committer._read_snapshot

    async def counted(keys: Sequence[str]) -> HeadSnapshot:
        reads.append(keys)
        return await read(keys)

    monkeypatch.setattr(store._committer, "_read_snapshot", counted)
    return reads


async def test_who_committed_last_need_not_look_again(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(store, n=b"1", m=b"")
    reads = count_reads(store, monkeypatch)
    await store.transact(0, ["m"], lambda _: (Writes(puts={"m": b"1"}), None))
    assert reads == [["m"]], "the others have had no time"
    reads.clear()
    monkeypatch.setattr(commit_cache, "MIN_AGE_SECONDS", 0.0)
    for result in range(2, 12):
        assert (await store.transact(0, ["n"], increment("n"))).result == result
    assert not reads
    await store.transact(0, ["other"], lambda _: (Writes(puts={"n": b"5"}), None))
    assert reads == [["other"]]
    monkeypatch.setattr(commit_cache, "MAX_AGE_SECONDS", 0.0)
    await put(store, n=b"6")
    assert (await store.transact(0, ["n"], increment("n"))).result == 7
    assert reads == [["other"], [], ["n"]]


async def test_what_is_remembered_is_never_more_than_a_guess(
    store: OxiaStore, other: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a read nor a refusal comes of it, and a commit only if it is true."""
    monkeypatch.setattr(commit_cache, "MIN_AGE_SECONDS", 0.0)
    monkeypatch.setattr(store._committer, "note_applied", lambda _: None)

    def refuse(values: Values) -> tuple[Writes, None]:
        entry = values["n"]
        if entry is None or entry.value != b"9":
            raise KeyError("n")
        return Writes(puts={"n": b"1"}), None

    for decide, expected in (
        (lambda values: (Writes(), values["n"].value), b"9"),
        (refuse, None),
        (increment("n"), 10),
    ):
        await put(store, n=b"1")
        await put(other, n=b"9")
        assert (await store.transact(0, ["n"], decide)).result == expected
    with pytest.raises(KeyError):
        await store.transact(0, ["n"], refuse)


async def test_what_is_read_beside_what_is_remembered_is_of_the_same_head(
    store: OxiaStore, other: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_cache, "MIN_AGE_SECONDS", 0.0)
    monkeypatch.setattr(store._committer, "note_applied", lambda _: None)
    proposed: list[Head] = []
    propose = store._committer._propose

    async def counted(head: Head, version: int) -> int | None:
        proposed.append(head)
        return await propose(head, version)

    monkeypatch.setattr(store._committer, "_propose", counted)

    def put_new(_: Values) -> tuple[Writes, None]:
        return Writes(puts={"new": b"2"}), None

    def delete_range(_: Values) -> tuple[Writes, None]:
        return Writes(puts={"n": b"2"}, range_deletes=[("k", "l")]), None

    for decide in (put_new, delete_range):
        await put(store, n=b"1")
        await put(other, new=b"1", k=b"1")
        proposed.clear()
        await store.transact(0, ["n"], decide)
        assert len(proposed) == 1, "the guess was not even proposed"
    assert await store.get("k") is None
    entry = await store.get("new")
    assert entry is not None
    assert entry.value == b"1"


async def test_a_deleted_key_is_remembered_with_the_version_of_its_mark(
    store: OxiaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_cache, "MIN_AGE_SECONDS", 0.0)
    for value in (b"1", b"2"):
        await put(store, n=value)
        await store.transact(0, ["n"], lambda _: (Writes(deletes=["n"]), None))
        committed = await store.transact(
            0, ["n"], lambda values: (Writes(puts={"m": b""}), values["n"])
        )
        assert committed.result is None
        await put(store, n=b"again")
        entry = await store.get("n")
        assert entry is not None
        assert entry.value == b"again"
