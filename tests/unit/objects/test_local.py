"""How a put to a local directory becomes durable, and what happens where it cannot."""

import errno
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from headwater.errors import StorageFull, StoreUnavailable
from headwater.objects.local.store import LocalDirectory
from tests.support.objects.local_files import Trace, fail, left_behind


@pytest.fixture
async def store(tmp_path: Path, executor: Executor) -> AsyncIterator[LocalDirectory]:
    store = LocalDirectory(tmp_path, executor=executor)
    yield store
    await store.close()


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


async def test_a_new_root_is_durable_with_all_of_its_parents(
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


async def test_a_partial_write_is_continued(
    store: LocalDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda number, parts, at: real(number, [parts[0][:3]], at))
    await store.put("a", [b"12345", b"", b"6", b"7890abc"])
    assert await store.get("a") == b"1234567890abc"


async def test_a_failed_fsync_of_a_file_is_not_repeated(
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


async def test_a_directory_whose_fsync_failed_is_refused_from_then_on(
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
async def test_an_error_names_the_directory_and_the_remedy(
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
from headwater.objects.local.store import LocalDirectory

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
