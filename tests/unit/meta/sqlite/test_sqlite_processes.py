"""SQLite shared by real processes: killed, stopped, and out of space."""

import asyncio
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.clock import SystemClock
from headwater.meta.sqlite import SqliteStore
from tests.support.meta import sqlite_processes
from tests.support.meta.conformance import put, take

spawn = multiprocessing.get_context("spawn")


@contextmanager
def process(target: Callable[..., None], *args: Any) -> Iterator[tuple[SpawnProcess, Connection]]:
    """Run ``target`` with the end of a pipe; whatever is left of it is killed."""
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=target, args=(*args, theirs))
    child.start()
    theirs.close()
    try:
        yield child, ours
    finally:
        child.kill()
        child.join()
        child.close()
        ours.close()


async def received(pipe: Connection) -> Any:
    return await asyncio.to_thread(pipe.recv)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


async def test_four_processes_that_increment_one_counter_lose_nothing(path: Path) -> None:
    children = [spawn.Process(target=sqlite_processes.count, args=(path, 100)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        await asyncio.to_thread(child.join)
        assert child.exitcode == 0
    store = await SqliteStore.open(path, SystemClock())
    entry = await store.get("n")
    await store.close()
    assert entry is not None
    assert entry.value == b"400"


async def test_a_killed_process_leaves_whole_commits_and_every_acknowledged_one(
    path: Path,
) -> None:
    store = await SqliteStore.open(path, SystemClock())
    random = Random(7)
    acknowledged = 0
    for _ in range(3):
        first = acknowledged + 1
        with process(sqlite_processes.write_groups, path, first) as (child, pipe):
            acknowledged = await received(pipe)
            await asyncio.sleep(random.uniform(0.02, 0.1))
            child.kill()
            await asyncio.to_thread(child.join)
            try:
                while True:
                    acknowledged = pipe.recv()
            except EOFError:
                pass
        scan = await store.scan("group/", "group0")
        assert len(scan.entries) == len(sqlite_processes.GROUP)
        assert len({entry.value for entry in scan.entries}) == 1
        assert int(scan.entries[0].value) in {acknowledged, acknowledged + 1}
        acknowledged = int(scan.entries[0].value)
    await store.close()


async def test_the_socket_of_a_killed_process_is_removed(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    with process(sqlite_processes.hold_session, path) as (child, pipe):
        await received(pipe)
        assert len(list(path.parent.glob("meta.db.d/*.sock"))) == 2
        child.kill()
        await asyncio.to_thread(child.join)
        async with asyncio.timeout(20):
            while len(list(path.parent.glob("meta.db.d/*.sock"))) == 2:
                await put(store, a=b"wake")
                await asyncio.sleep(0.05)
    await store.close()
    assert not list(path.parent.glob("meta.db.d/*.sock"))


async def test_a_process_stopped_past_its_ttl_finds_its_session_lost(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    with process(sqlite_processes.hold_session, path) as (child, pipe):
        assert await received(pipe) == "bound"
        entry = await store.get("e/held")
        assert entry is not None
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        changes = await take(store.watch("e/", entry.revision), 1)
        assert [(change.key, change.value) for change in changes] == [("e/held", None)]
        pipe.send("go on")
        os.kill(child.pid, signal.SIGCONT)
        assert await received(pipe) == ("lost", True, True)
    assert await store.get("e/held") is None
    await store.close()


async def test_a_watch_follows_commits_of_another_process(path: Path) -> None:
    store = await SqliteStore.open(path, SystemClock())
    with process(sqlite_processes.write_groups, path, 1):
        changes = await take(store.watch("group/00", 0), 30)
    await store.close()
    assert [int(change.value or b"") for change in changes[:30]] == list(range(1, 31))


async def test_a_full_disk_is_reported_and_survived(path: Path) -> None:
    with process(sqlite_processes.fill_the_disk, path) as (_, pipe):
        assert await received(pipe) == "StorageFull"
        assert await received(pipe) == (None, b"before")
        assert await received(pipe) == b"after"


@pytest.fixture
def directory() -> Iterator[Path]:
    """One that every user can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_directory_without_write_permission_is_one_clear_line(directory: Path) -> None:
    (inside := directory / "closed").mkdir(mode=0o555)
    with process(sqlite_processes.open_unprivileged, inside / "meta.db") as (_, pipe):
        kind, text = await received(pipe)
    assert kind == "ConfigurationError"
    assert str(inside) in text
    assert "Permission denied" in text


async def test_a_file_without_write_permission_is_one_clear_line(directory: Path) -> None:
    path = directory / "meta.db"
    await (await SqliteStore.open(path, SystemClock())).close()
    for file in (path, path.with_name("meta.db.d") / "open.lock"):
        file.chmod(0o444)
    with process(sqlite_processes.open_unprivileged, path) as (_, pipe):
        kind, text = await received(pipe)
    assert kind == "ConfigurationError"
    assert str(path) in text
