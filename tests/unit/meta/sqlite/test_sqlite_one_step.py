"""Commits that begin with what the writer remembers end as if it had looked."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.clock import SystemClock
from headwater.errors import UnknownOutcome
from headwater.meta.memory import MemoryStore
from headwater.meta.sqlite import SqliteStore, one_step, recall, writer
from headwater.meta.store import Entry, MetadataStore, Values, Writes
from tests.support.meta.conformance import increment, put, puts
from tests.unit.meta import test_conformance
from tests.unit.meta.test_model import Transact, transacts


class Steps:
    """How many commits were one statement, and how many of those were refused."""

    landed = 0
    refused = 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()

    def count(cursor: apsw.Cursor, revision: int, items: list[tuple[str, bytes | None]]) -> bool:
        done = one_step.put_in_one_step(cursor, revision, items)
        counted.landed += done
        counted.refused += not done
        return done

    monkeypatch.setattr(writer, "put_in_one_step", count)
    return counted


@pytest.fixture
def at_once() -> Iterator[None]:
    """What was seen once is relied upon, whoever else commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "ALONE", 0)
        yield


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "meta.db", SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "meta.db", SystemClock())
    yield opened
    await opened.close()


@pytest.mark.usefixtures("at_once")
class TestOpenedOnce(test_conformance.TestSqliteOpenedOnce):
    pass


@pytest.mark.usefixtures("at_once")
class TestOpenedTwice(test_conformance.TestSqliteOpenedTwice):
    pass


async def test_a_process_that_is_alone_commits_in_one_step(
    store: SqliteStore, steps: Steps
) -> None:
    for number in range(1, recall.ALONE + 11):
        assert (await store.transact(0, ["n"], increment("n"))).result == number
    assert (steps.landed, steps.refused) == (10, 0)


async def test_two_processes_that_take_turns_look_each_time(
    store: SqliteStore, other: SqliteStore, steps: Steps
) -> None:
    for _ in range(2 * recall.ALONE):
        await store.transact(0, ["n"], increment("n"))
        await other.transact(0, ["n"], increment("n"))
    assert (steps.landed, steps.refused) == (0, 0)


@pytest.mark.usefixtures("at_once")
async def test_what_another_process_changed_is_looked_up(
    store: SqliteStore, other: SqliteStore, steps: Steps
) -> None:
    await store.transact(0, ["n"], increment("n"))
    await other.transact(0, ["n"], increment("n"))
    assert (await store.transact(0, ["n"], increment("n"))).result == 3
    assert steps.refused == 1


@pytest.mark.usefixtures("at_once")
async def test_what_another_process_changed_long_ago_is_looked_up(
    store: SqliteStore, other: SqliteStore, tmp_path: Path, steps: Steps
) -> None:
    await store.transact(0, ["n"], increment("n"))
    for _ in range(3):
        await other.transact(0, ["n"], increment("n"))
    await test_conformance.Sqlite(tmp_path / "meta.db").forget_changes()
    steps.refused = 0
    assert (await store.transact(0, ["n"], increment("n"))).result == 5
    assert steps.refused == 1


@pytest.mark.usefixtures("at_once")
async def test_a_refusal_does_not_rest_on_what_is_remembered(
    store: SqliteStore, other: SqliteStore
) -> None:
    await store.transact(0, ["n"], increment("n"))
    await put(other, n=b"9")

    def refuse_one(values: Values) -> tuple[Writes, None]:
        entry = values["n"]
        if entry is None or entry.value == b"1":
            raise LookupError
        return Writes(puts={"n": b"10"}), None

    await store.transact(0, ["n"], refuse_one)
    entry = await other.get("n")
    assert entry is not None
    assert entry.value == b"10"


@pytest.mark.usefixtures("at_once")
async def test_who_writes_nothing_looks(store: SqliteStore, other: SqliteStore) -> None:
    await store.transact(0, ["n"], increment("n"))
    revision = await put(other, n=b"9")
    seen = await store.transact(0, ["n"], lambda values: (Writes(), values["n"]))
    assert seen.result == Entry("n", b"9", revision)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 511, 512, 513])
async def test_any_number_of_puts_lands_whole(store: SqliteStore, steps: Steps, count: int) -> None:
    await put(store, a=b"")
    wanted = {f"k/{number:03d}": b"%d" % number for number in range(count)}
    revision = (await store.transact(0, [], puts(wanted))).revision
    found = (await store.scan("k/", "k0")).entries
    assert found == [Entry(key, value, revision) for key, value in wanted.items()]
    assert steps.landed == (count <= one_step.MOST_PUTS)


@pytest.mark.usefixtures("at_once")
async def test_a_step_whose_sync_fails_may_have_landed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.transact(0, ["n"], increment("n"))

    def fail(*_: object) -> bool:
        error = apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(writer, "put_in_one_step", fail)
        with pytest.raises(UnknownOutcome):
            await store.transact(0, ["n"], increment("n"))
    assert (await store.transact(0, ["n"], increment("n"))).result == 2


async def seen(store: MetadataStore, operation: Transact) -> tuple[int, dict[str, Entry | None]]:
    def decide(values: Values) -> tuple[Writes, dict[str, Entry | None]]:
        writes = Writes(
            puts=dict(operation.puts),
            deletes=list(operation.deletes),
            range_deletes=list(operation.ranges),
        )
        return writes, dict(values)

    committed = await store.transact(0, operation.read, decide)
    return committed.revision, committed.result


plain_puts = transacts.map(lambda each: Transact(each.read, each.puts, [], []))


@settings(max_examples=60, deadline=None)
@given(
    operations=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 1]), plain_puts | plain_puts | transacts), max_size=30
    )
)
def test_two_processes_see_and_write_what_one_store_in_memory_does(
    operations: list[tuple[int, Transact]],
) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
            patch.setattr(recall, "ALONE", 0)
            path = Path(directory) / "meta.db"
            model = MemoryStore()
            stores = [await SqliteStore.open(path, SystemClock()) for _ in range(2)]
            try:
                for number, operation in operations:
                    assert await seen(stores[number], operation) == await seen(model, operation)
            finally:
                for each in stores:
                    await each.close()

    asyncio.run(main())
