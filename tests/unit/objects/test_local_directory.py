"""What may be in a local directory beside objects, and what becomes of it."""

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import (
    ConfigurationError,
    ObjectNotFound,
    ObjectStoreUnavailable,
    StoreUnavailable,
)
from headwater.objects.local.store import LocalDirectory
from headwater.objects.object_keys import TEMPORARY_SEGMENT
from tests.support.objects.local_files import Trace, fail, files, left_behind, open_descriptors


@pytest.fixture
async def store(tmp_path: Path, executor: Executor) -> AsyncIterator[LocalDirectory]:
    store = LocalDirectory(tmp_path, executor=executor)
    yield store
    await store.close()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_directory_that_cannot_be_written_stops_the_start_with_one_line(
    tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    fail(monkeypatch, "mkdir", code)
    with pytest.raises(ConfigurationError) as caught:
        LocalDirectory(tmp_path / "data", executor=executor)
    assert str(tmp_path / "data") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_system_without_hard_links_stops_the_start(
    tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "link", errno.EPERM)
    with pytest.raises(ConfigurationError, match="choose another directory"):
        LocalDirectory(tmp_path, executor=executor)


def test_a_file_in_the_place_of_the_directory_stops_the_start(
    tmp_path: Path, executor: Executor
) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match="move it away"):
            LocalDirectory(path, executor=executor)


async def test_other_files_are_not_objects(store: LocalDirectory, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="stands in its place"):
        await store.put("a/b", [b"1"])
    with pytest.raises(StoreUnavailable, match="stands in its path"):
        await store.put("file/b", [b"1"])
    assert left_behind(tmp_path) == []


async def test_foreign_files_are_not_listed(store: LocalDirectory, tmp_path: Path) -> None:
    (tmp_path / "x%y").write_text("")
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    await store.put("a", [b"1"])
    assert [info.key async for info in store.list("")] == ["a"]


async def test_a_file_that_is_truncated_during_a_read_is_an_error(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("a", [b"12345"])
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(StoreUnavailable, match="truncated while it was read"):
        await store.get("a")


async def test_deletes_remove_empty_directories_only(store: LocalDirectory, tmp_path: Path) -> None:
    await store.put("a/b/1", [b"1"])
    await store.put("a/2", [b"1"])
    await store.delete("a/b/1")
    assert not (tmp_path / "a" / "b").exists()
    await store.delete("a/2")
    assert not (tmp_path / "a").exists()


async def test_a_directory_that_another_process_created_again_is_made_durable_again(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("a/b/1", [b"1"])
    (tmp_path / "a" / "b" / "1").unlink()
    (tmp_path / "a" / "b").rmdir()
    (tmp_path / "a").rmdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    trace = Trace(monkeypatch)
    await store.put("a/b/2", [b"1"])
    landed = len(trace.calls) - 1 - trace.calls[::-1].index("link 2")
    assert trace.calls.index(f"fsync {tmp_path.name}") < landed
    assert trace.calls.index("fsync a") < landed
    assert await store.get("a/b/2") == b"1"


async def test_puts_survive_deletes_of_their_directory(
    store: LocalDirectory, tmp_path: Path, executor: Executor
) -> None:
    other = LocalDirectory(tmp_path, executor=executor)

    async def churn(owner: LocalDirectory, name: str) -> None:
        for number in range(40):
            await owner.put(f"d/e/{name}-{number}", [b"1"])
            await owner.delete(f"d/e/{name}-{number}")
        await owner.put(f"d/e/{name}-last", [name.encode()])

    async with asyncio.TaskGroup() as group:
        group.create_task(churn(store, "a"))
        group.create_task(churn(other, "b"))
        group.create_task(churn(other, "c"))
    assert [info.key async for info in store.list("")] == [f"d/e/{name}-last" for name in "abc"]
    await other.close()


def test_a_store_that_was_killed_leaves_nothing_after_the_next_start(
    tmp_path: Path, executor: Executor
) -> None:
    script = """
import sys, time
from pathlib import Path
from headwater.objects.local.temporary_files import TemporaryArea
area = TemporaryArea(Path(sys.argv[1]))
area.write([b"unfinished"])
print("ready", flush=True)
time.sleep(60)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        LocalDirectory(tmp_path, executor=executor)
        assert len(left_behind(tmp_path)) == 1, "its owner lives"
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    LocalDirectory(tmp_path, executor=executor)
    assert left_behind(tmp_path) == []


async def test_a_closed_store_leaves_only_its_objects(tmp_path: Path, executor: Executor) -> None:
    store = LocalDirectory(tmp_path, executor=executor)
    await store.put("a/b", [b"1"])
    await store.close()
    assert files(tmp_path) == [tmp_path / "a" / "b"]
    assert list((tmp_path / TEMPORARY_SEGMENT).iterdir()) == []


async def test_many_directories_keep_few_descriptors_open(
    tmp_path: Path, executor: Executor
) -> None:
    store = LocalDirectory(tmp_path, executor=executor)
    before = open_descriptors(tmp_path)
    for number in range(300):
        await store.put(f"d{number}/x", [b"1"])
    assert open_descriptors(tmp_path) <= before + 256
    await store.close()
    assert open_descriptors(tmp_path) <= before


async def test_an_append_is_durable_and_only_the_first_names_the_file(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    growing = store.grow("wal/1/a.wo")
    await growing.append([b"one"])
    first = list(trace.calls)
    trace.calls.clear()
    await growing.append([b"two"])
    assert first[-2:] == ["pwritev a.wo", "fdatasync a.wo"]
    assert first[-3] == "fsync 1"
    assert trace.calls == ["pwritev a.wo", "fdatasync a.wo"]


async def test_after_a_failed_fsync_appends_fail(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = store.grow("wal/1/a.wo")
    await growing.append([b"one"])
    calls = []

    def fail(number: int) -> None:
        calls.append(number)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await growing.append([b"two"])
    assert len(calls) == 1
    assert await store.get_range("wal/1/a.wo", 0, 3) == b"one"


async def test_an_append_fails_if_the_kernel_reported_its_error_to_another_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as threads:
        store = LocalDirectory(tmp_path, executor=threads)
        growing = store.grow("wal/1/a.wo")
        await growing.append([b"one"])
        monkeypatch.setattr(os, "fdatasync", ErrorToldOnce())
        done = await asyncio.gather(
            growing.append([b"two"]), growing.append([b"three"]), return_exceptions=True
        )
        assert [type(each) for each in done] == [ObjectStoreUnavailable] * 2
        await store.close()


async def test_a_put_fails_if_the_kernel_reported_its_directory_error_to_another_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as threads:
        store = LocalDirectory(tmp_path, executor=threads)
        await store.put("wal/1.wo", [b"one"])
        monkeypatch.setattr(os, "fsync", ErrorToldOnce())
        done = await asyncio.gather(
            store.put("wal/2.wo", [b"two"]), store.put("wal/3.wo", [b"three"]),
            return_exceptions=True,
        )  # fmt: skip
        assert [type(each) for each in done] == [ObjectStoreUnavailable] * 2
        await store.close()


class ErrorToldOnce:
    """A sync like the kernel's: of two overlapping ones only the first to return gets the error.

    The other one finds no dirty page and no error.
    """

    def __init__(self) -> None:
        self._both = threading.Barrier(2, timeout=1)
        self._first = threading.Lock()

    def __call__(self, _number: int) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):  # one comes after the other
            self._both.wait()
        if self._first.acquire(blocking=False):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


class _Counting(ThreadPoolExecutor):
    """Counts what it is asked to run."""

    asked = 0

    def submit(self, *args: Any, **named: Any) -> "Future[Any]":
        self.asked += 1
        return super().submit(*args, **named)


@pytest.fixture
async def counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[LocalDirectory, _Counting]]:
    """A store with an object that was read once, and its executor.

    All of it is in the page cache, also where the file system of the tests cannot tell.
    """
    read = os.preadv
    monkeypatch.setattr(os, "preadv", lambda number, data, at, flags=0: read(number, data, at))
    with _Counting(1) as executor:
        store = LocalDirectory(tmp_path, executor=executor)
        await store.put("a/b", [b"0123456789"])
        assert await store.get_range("a/b", 0, 5) == b"01234"
        executor.asked = 0
        yield store, executor
        await store.close()


async def test_a_read_from_the_page_cache_takes_no_hop_to_the_executor(
    counted: tuple[LocalDirectory, _Counting],
) -> None:
    store, executor = counted
    assert await store.get_range("a/b", 3, 7) == b"3456789"
    assert (executor.asked, store.traffic.gets, store.traffic.bytes_read) == (0, 2, 12)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EOPNOTSUPP, errno.EIO])
async def test_a_read_that_misses_the_page_cache_runs_in_the_executor(
    counted: tuple[LocalDirectory, _Counting],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    code: int,
) -> None:
    store, executor = counted
    read = os.preadv

    def cold(number: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(code, os.strerror(code))
        return read(number, buffers, offset)

    monkeypatch.setattr(os, "preadv", cold)
    before = open_descriptors(tmp_path)
    assert await store.get_range("a/b", 3, 7) == b"3456789"
    assert executor.asked == 1
    assert open_descriptors(tmp_path) == before


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, None])
async def test_without_page_cache_reads_no_file_is_opened_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    if code is None:
        monkeypatch.setattr("headwater.objects.local.store.NO_WAIT", None)
    else:
        fail(monkeypatch, "preadv", code)
    with _Counting(1) as executor:
        store = LocalDirectory(tmp_path, executor=executor)
        monkeypatch.undo()
        await store.put("a/b", [b"0123456789"])
        for asked in (2, 3, 4):
            assert await store.get_range("a/b", 0, 5) == b"01234"
            assert executor.asked == asked
        await store.close()


async def test_a_read_that_is_partly_in_the_page_cache_runs_in_the_executor(
    counted: tuple[LocalDirectory, _Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, executor = counted
    read = os.preadv

    def partly(number: int, buffers: Any, offset: int, flags: int = 0) -> int:
        return read(number, [memoryview(buffers[0])[:2]] if flags else buffers, offset)

    monkeypatch.setattr(os, "preadv", partly)
    assert await store.get_range("a/b", 3, 7) == b"3456789"
    assert executor.asked == 1


async def test_an_object_that_was_read_and_deleted_is_not_found(
    counted: tuple[LocalDirectory, _Counting],
) -> None:
    store, _ = counted
    await store.delete("a/b")
    with pytest.raises(ObjectNotFound):
        await store.get_range("a/b", 0, 5)


async def test_a_range_past_the_end_is_refused_the_second_time_too(
    counted: tuple[LocalDirectory, _Counting],
) -> None:
    store, _ = counted
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="has 10 bytes"):
            await store.get_range("a/b", 5, 6)


async def test_a_caller_that_reads_in_a_loop_does_not_starve_other_tasks(
    counted: tuple[LocalDirectory, _Counting],
) -> None:
    store, _ = counted
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    task = asyncio.create_task(other())
    for _ in range(100):
        await store.get_range("a/b", 0, 5)
    task.cancel()
    assert turns >= 99
