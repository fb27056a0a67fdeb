import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import ConfigurationError, StorageFull, StoreUnavailable
from headwater.objects.local import LocalDirectory
from headwater.objects.names import TEMPORARY


@pytest.fixture
async def store(tmp_path: Path, executor: Executor) -> AsyncIterator[LocalDirectory]:
    store = LocalDirectory(tmp_path, executor=executor)
    yield store
    await store.close()


def left_behind(root: Path) -> list[Path]:
    return files(root / TEMPORARY)


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Trace:
    """Records the calls that make a write durable, by the names of what they touch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self._monkeypatch = monkeypatch
        for name in ("pwritev", "fdatasync", "fsync"):
            self._watch(name, lambda number, *_: _place(number))
        self._watch("link", lambda _source, target, **_: target)
        self._watch("mkdir", lambda path, *_, **__: path)

    def _watch(self, name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def traced(*arguments: Any, **named: Any) -> Any:
            self.calls.append(f"{name} {describe(*arguments, **named)}")
            return real(*arguments, **named)

        self._monkeypatch.setattr(os, name, traced)


def _place(number: int) -> str:
    path = Path(f"/proc/self/fd/{number}").readlink()
    return "temporary" if TEMPORARY in path.parts else path.name


def fail(monkeypatch: pytest.MonkeyPatch, name: str, code: int, *, times: int = 1) -> None:
    """Let a call of the os module fail that many times, then work again."""
    real = getattr(os, name)
    left = times

    def failing(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise OSError(code, os.strerror(code))
        return real(*arguments, **named)

    monkeypatch.setattr(os, name, failing)


async def test_bytes_are_durable_before_the_name_and_the_name_before_the_answer(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    await store.put("wal/inc/1.wo", [b"1"])
    assert trace.calls == [
        "pwritev temporary",
        "fdatasync temporary",
        "mkdir wal",
        f"fsync {tmp_path.name}",
        "mkdir inc",
        "fsync wal",
        "link 1.wo",
        "fsync inc",
    ]


async def test_a_known_directory_costs_two_syncs_a_put(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("wal/inc/1.wo", [b"1"])
    trace = Trace(monkeypatch)
    await store.put("wal/inc/2.wo", [b"1"])
    assert trace.calls == [
        "pwritev temporary",
        "fdatasync temporary",
        "link 2.wo",
        "fsync inc",
    ]


async def test_a_repeated_put_waits_for_the_directory_too(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("wal/1.wo", [b"1"])
    trace = Trace(monkeypatch)
    await store.put("wal/1.wo", [b"1"])
    assert trace.calls[-2:] == ["link 1.wo", "fsync wal"]


async def test_a_directory_that_another_store_made_is_synced_once_before_use(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wal").mkdir()
    trace = Trace(monkeypatch)
    await store.put("wal/1.wo", [b"1"])
    assert trace.calls.index(f"fsync {tmp_path.name}") < trace.calls.index("link 1.wo")


async def test_a_new_root_is_durable_with_all_above_it(
    tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    await LocalDirectory(tmp_path / "new" / "data", executor=executor).close()
    first = trace.calls.index(f"mkdir {tmp_path / 'new'}")
    assert trace.calls[first + 1 : first + 4] == [
        f"fsync {tmp_path.name}",
        f"mkdir {tmp_path / 'new' / 'data'}",
        "fsync new",
    ]


async def test_a_root_that_another_process_just_made_is_synced_before_use(
    tmp_path: Path, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Trace(monkeypatch)
    await LocalDirectory(tmp_path, executor=executor).close()
    assert f"fsync {tmp_path.parent.name}" in trace.calls


async def test_a_partial_write_goes_on_where_it_stopped(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda number, parts, at: real(number, [parts[0][:3]], at))
    await store.put("a", [b"12345", b"", b"6", b"7890abc"])
    assert await store.get("a") == b"1234567890abc"


async def test_a_failed_sync_of_a_file_is_not_tried_again(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "fdatasync", errno.EIO)
    trace = Trace(monkeypatch)
    with pytest.raises(StoreUnavailable, match="check the disk"):
        await store.put("wal/1.wo", [b"1"])
    assert trace.calls == ["pwritev temporary", "fdatasync temporary"]
    assert left_behind(tmp_path) == []
    assert [info async for info in store.list("")] == []
    assert store.traffic.errors == 1


async def test_a_put_after_a_failed_sync_writes_another_file(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fdatasync

    def fails_once(number: int) -> None:
        synced.append(Path(f"/proc/self/fd/{number}").readlink())
        if len(synced) == 1:
            raise OSError(errno.EIO, "injected")
        real(number)

    monkeypatch.setattr(os, "fdatasync", fails_once)
    with pytest.raises(StoreUnavailable):
        await store.put("wal/1.wo", [b"1"])
    await store.put("wal/1.wo", [b"1"])
    assert await store.get("wal/1.wo") == b"1"
    assert len(set(synced)) == 2


async def test_a_directory_whose_sync_failed_is_refused_for_good(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("wal/1.wo", [b"1"])
    fail(monkeypatch, "fsync", errno.EIO)
    trace = Trace(monkeypatch)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.put("wal/2.wo", [b"1"])
    assert trace.calls.count("fsync wal") == 1
    await store.put("elsewhere/2.wo", [b"1"])


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "link"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_no_space_left_is_storage_full_and_leaves_nothing(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    fail(monkeypatch, call, code)
    with pytest.raises(StorageFull, match=str(tmp_path)):
        await store.put("wal/1.wo", [b"1"])
    assert left_behind(tmp_path) == []
    assert [info async for info in store.list("")] == []
    await store.put("wal/1.wo", [b"1"])


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.EROFS, "mount"), (errno.EACCES, "right to write"), (errno.EMFILE, "ulimit -n")],
)
async def test_an_error_says_where_and_what_to_do(
    store: LocalDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    fail(monkeypatch, "open", code)
    with pytest.raises(StoreUnavailable, match=f"wal/1.wo in {tmp_path}.*{advice}"):
        await store.put("wal/1.wo", [b"1"])


def test_a_file_that_really_outgrows_its_limit_is_storage_full(tmp_path: Path) -> None:
    script = """
import asyncio, resource, sys
from concurrent.futures import ThreadPoolExecutor
from headwater.errors import StorageFull
from headwater.objects.local import LocalDirectory

async def main():
    with ThreadPoolExecutor(1) as executor:
        store = LocalDirectory(sys.argv[1], executor=executor)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        try:
            await store.put("large", [bytes(3 << 20)])
        except StorageFull as error:
            print(error)
        await store.put("small", [b"1"])

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True
    )
    assert "ulimit -f" in done.stdout
    assert (tmp_path / "small").read_bytes() == b"1"
    assert not (tmp_path / "large").exists()
    assert left_behind(tmp_path) == []


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


async def test_what_is_no_object_is_not_taken_for_one(
    store: LocalDirectory, tmp_path: Path
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="stands in its place"):
        await store.put("a/b", [b"1"])
    with pytest.raises(StoreUnavailable, match="stands in its path"):
        await store.put("file/b", [b"1"])
    assert left_behind(tmp_path) == []


async def test_files_that_are_not_ours_are_not_listed(
    store: LocalDirectory, tmp_path: Path
) -> None:
    (tmp_path / "x%y").write_text("")
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    await store.put("a", [b"1"])
    assert [info.key async for info in store.list("")] == ["a"]


async def test_a_file_cut_while_it_is_read_is_no_short_answer(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("a", [b"12345"])
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with pytest.raises(StoreUnavailable, match="cut while it was read"):
        await store.get("a")


async def test_deletes_remove_empty_directories_only(store: LocalDirectory, tmp_path: Path) -> None:
    await store.put("a/b/1", [b"1"])
    await store.put("a/2", [b"1"])
    await store.delete("a/b/1")
    assert not (tmp_path / "a" / "b").exists()
    await store.delete("a/2")
    assert not (tmp_path / "a").exists()


async def test_a_directory_made_again_by_another_is_made_durable_again(
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


async def test_puts_survive_deletes_that_prune_their_directory(
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
from headwater.objects.temporary import TemporaryArea
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
    assert list((tmp_path / TEMPORARY).iterdir()) == []


async def test_many_directories_keep_few_descriptors_open(
    tmp_path: Path, executor: Executor
) -> None:
    store = LocalDirectory(tmp_path, executor=executor)
    before = open_descriptors()
    for number in range(300):
        await store.put(f"d{number}/x", [b"1"])
    assert open_descriptors() <= before + 256
    await store.close()
    assert open_descriptors() <= before


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


async def test_after_a_failed_sync_nothing_is_appended_any_more(
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
