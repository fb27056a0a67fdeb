"""What the SQLite backend alone promises, within one process."""

import asyncio
import os
from pathlib import Path

import apsw
import pytest

from headwater.clock import SystemClock
from headwater.errors import (
    ConfigurationError,
    StorageFull,
    StoreGone,
    StoreUnavailable,
    UnknownFormat,
    UnknownOutcome,
    WatchTrimmed,
)
from headwater.meta.sqlite import SqliteStore, checkpointer
from headwater.meta.sqlite.failures import store_error
from headwater.meta.sqlite.store import BUSY_SECONDS
from headwater.meta.store import Values, Writes
from tests.support.meta.conformance import put, puts, take


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


async def opened(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> SqliteStore:
    return await SqliteStore.open(path, SystemClock(), busy_seconds=busy_seconds)


async def test_the_directories_above_a_file_are_durable_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    fsync = os.fsync

    def note(number: int) -> None:
        synced.add(os.fstat(number).st_ino)
        fsync(number)

    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "a" / "b" / "meta.db"
    await (await opened(path)).close()
    for directory in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        assert directory.stat().st_ino in synced, directory


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def damage(path: Path, keep: int, filler: bytes) -> None:
    path.write_bytes((path.read_bytes()[:keep] if keep else b"") + filler)


def oldest_change(path: Path) -> object:
    connection = apsw.Connection(str(path))
    oldest = connection.execute("SELECT min(revision) FROM change").get
    connection.close()
    return oldest


async def test_data_and_revision_outlive_the_process(path: Path) -> None:
    store = await opened(path)
    revision = await put(store, a=b"1")
    await store.close()
    store = await opened(path)
    assert (await store.scan("a", "b")).revision == revision
    assert await put(store, a=b"2") == revision + 1
    await store.close()


async def test_a_relative_path_with_a_missing_directory_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = await opened(Path("some/where/meta.db"))
    await store.close()
    assert (tmp_path / "some/where/meta.db").exists()


async def test_a_path_longer_than_a_socket_address_works(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "meta.db"
    store, other = await opened(path), await opened(path)
    watch = other.watch("a", 0)
    await put(store, a=b"1")
    assert len(await take(watch, 1)) == 1
    await store.close()
    await other.close()


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    damage(path, 0, b"something else entirely\n" * 1000)
    with pytest.raises(ConfigurationError, match="not a database"):
        await opened(path)


async def test_a_damaged_database_is_refused(path: Path) -> None:
    store = await opened(path)
    await put(store, a=bytes(100_000))
    await store.close()
    damage(path, 100, b"\xff" * 8000)
    with pytest.raises(ConfigurationError, match="damaged"):
        await opened(path)


async def test_another_programs_database_is_refused(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(ConfigurationError, match="another program"):
        await opened(path)
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA journal_mode").get == "delete"
    connection.close()


async def test_a_newer_format_is_refused_with_both_versions(path: Path) -> None:
    await (await opened(path)).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=7").fetchall()
    connection.close()
    with pytest.raises(UnknownFormat, match="format 7, this release knows up to 1"):
        await opened(path)


async def test_an_old_sqlite_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(ConfigurationError, match=r"3\.40\.1.*3\.51\.3"):
        await opened(path)


async def test_a_database_locked_for_too_long_is_unavailable_and_reads_go_on(path: Path) -> None:
    store = await opened(path, busy_seconds=0.2)
    await put(store, a=b"1")
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="too long"):
        await put(store, a=b"2")
    entry = await store.get("a")
    assert entry is not None
    assert entry.value == b"1"
    connection.execute("ROLLBACK")
    connection.close()
    await put(store, a=b"3")
    await store.close()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_another_took_the_place_of_is_not_written(path: Path, how: str) -> None:
    store = await opened(path)
    await put(store, a=b"1")
    move(path)
    if how == "replaced":
        other = await opened(path)
        assert await other.get("a") is None
        await other.close()
    await asyncio.sleep(1)
    with pytest.raises(StoreGone, match="deleted or replaced"):
        await put(store, b=b"2")
    for call in (store.get("a"), store.scan("", "z")):
        with pytest.raises(StoreGone, match="put it back"):
            await call
    await store.close()


async def test_opening_the_file_deletes_keys_of_sessions_that_expired_meanwhile(
    path: Path,
) -> None:
    first = await opened(path)
    session = await first.session(0.2)

    def own(_: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put("brokers/1", b"", session=session.id)
        return writes, None

    await first.transact(0, [], own)
    await first.close()
    await asyncio.sleep(0.3)
    second = await opened(path)
    assert await second.get("brokers/1") is None
    await second.close()


async def test_a_closed_store_answers_no_more(path: Path) -> None:
    store = await opened(path)
    watch = asyncio.create_task(take(store.watch("a", 0), 1))
    await asyncio.sleep(0)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.get("a")
    with pytest.raises(StoreUnavailable):
        await watch


@pytest.mark.parametrize(
    ("code", "commits", "expected"),
    [
        (apsw.SQLITE_IOERR_FSYNC, True, UnknownOutcome),
        (apsw.SQLITE_IOERR_WRITE, True, StoreUnavailable),
        (apsw.SQLITE_IOERR_FSYNC, False, StoreUnavailable),
        (apsw.SQLITE_FULL, True, StorageFull),
        (apsw.SQLITE_BUSY, True, StoreUnavailable),
    ],
)
def test_only_a_commit_that_may_have_landed_is_unknown(
    code: int, commits: bool, expected: type[Exception]
) -> None:
    connection = apsw.Connection(":memory:")
    error = apsw.exception_for(code)
    assert isinstance(error, apsw.Error)
    assert type(store_error(error, connection, commits=commits)) is expected
    connection.close()


async def test_a_cancelled_caller_leaves_the_commit_to_watches(path: Path) -> None:
    store = await opened(path)
    call = asyncio.create_task(store.transact(0, [], puts({"a": b"1"})))
    await asyncio.sleep(0.2)
    call.cancel()
    assert len(await take(store.watch("a", 0), 1)) == 1
    await store.close()


async def test_old_changes_are_trimmed_and_the_revision_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(checkpointer, "KEPT_REVISIONS", 10)
    store = await opened(path)
    revision = 0
    async with asyncio.timeout(20):
        while oldest_change(path) == 0:
            revision = await put(store, a=b"x")
    await store.close()
    late = await opened(path)
    assert (await late.scan("a", "b")).revision == revision
    with pytest.raises(WatchTrimmed):
        await take(late.watch("a", 0), 1)
    await late.close()


async def test_the_journal_stays_short_under_steady_load(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(checkpointer, "COPY_BYTES", 2**18)
    monkeypatch.setattr(checkpointer, "RESTART_BYTES", 2**20)
    store, other = await opened(path), await opened(path)

    async def write(handle: SqliteStore) -> None:
        for number in range(150):
            await put(handle, a=bytes([number]) * 2**17)

    await asyncio.gather(write(store), write(other))
    # Some 40 MiB were written; in between the journal has started over.
    assert path.with_name("meta.db-wal").stat().st_size < 20 * 2**20
    await store.close()
    await other.close()
