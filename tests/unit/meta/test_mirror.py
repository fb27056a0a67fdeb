"""A copy of a prefix in memory: it is loaded, follows changes, and never goes back."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from headwater.errors import StoreUnavailable, WatchTrimmed
from headwater.meta.memory import MemoryStore
from headwater.meta.mirror import Mirror
from headwater.meta.store import KeyChange, Scan, Values, Writes
from headwater.work_budget import TURN_ELEMENTS


async def put(store: MemoryStore, key: str, value: bytes | None) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        if value is None:
            writes.delete(key)
        else:
            writes.put(key, value)
        return writes, None

    await store.transact(0, [], decide)


class SeenChanges:
    """What a mirror told."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.times = 0

    def __call__(self, values: Mapping[str, bytes]) -> None:
        self.values = dict(values)
        self.times += 1

    async def until(self, expected: dict[str, bytes]) -> None:
        while self.values != expected:
            await asyncio.sleep(0)


@asynccontextmanager
async def running(mirror: Mirror) -> AsyncIterator[None]:
    task = asyncio.ensure_future(mirror.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_mirror_follows_the_values_under_its_prefix() -> None:
    store, seen = MemoryStore(), SeenChanges()
    await put(store, "a/1", b"x")
    await put(store, "b/1", b"not mine")
    mirror = Mirror(store, "a/", seen)
    await mirror.load()
    assert seen.values == {"1": b"x"}
    async with running(mirror):
        await put(store, "a/2", b"y")
        await put(store, "a/1", None)
        await seen.until({"2": b"y"})
    await store.close()


async def test_an_own_write_is_seen_at_once_and_reported_once() -> None:
    store, seen = MemoryStore(), SeenChanges()
    mirror = Mirror(store, "a/", seen)
    async with running(mirror):
        await asyncio.sleep(0)
        await put(store, "a/1", b"x")
        await mirror.refresh()
        assert seen.values == {"1": b"x"}
        await put(store, "a/2", b"y")
        await seen.until({"1": b"x", "2": b"y"})
    await store.close()


class SlowScan(MemoryStore):
    """Gives out a look at everything late."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = asyncio.Event()
        self.hold.set()

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        found = await super().scan(start, end, limit=limit, reverse=reverse)
        await self.hold.wait()
        return found


async def test_a_late_read_does_not_overwrite_newer_changes_of_the_watch() -> None:
    store, seen = SlowScan(), SeenChanges()
    mirror = Mirror(store, "a/", seen)
    async with running(mirror):
        await put(store, "a/1", b"old")
        await seen.until({"1": b"old"})
        await put(store, "a/1", b"older than the watch")
        await seen.until({"1": b"older than the watch"})
        store.hold.clear()
        late = asyncio.ensure_future(mirror.load())
        await asyncio.sleep(0)
        await put(store, "a/1", b"new")
        await seen.until({"1": b"new"})
        store.hold.set()
        await late
        assert seen.values == {"1": b"new"}
    await store.close()


class Interrupted(MemoryStore):
    """Fails each of its first watches in another way."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        if self.errors:
            raise self.errors.pop(0)
        async for changes in super().watch(prefix, after):
            yield changes


async def test_a_watch_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.meta.mirror.RETRY_SECONDS", 0)
    store, seen = Interrupted(WatchTrimmed("behind"), StoreUnavailable("away")), SeenChanges()
    async with running(Mirror(store, "a/", seen)):
        await put(store, "a/1", b"x")
        await seen.until({"1": b"x"})
        while store.errors:
            await asyncio.sleep(0)
        await put(store, "a/2", b"y")
        await seen.until({"1": b"x", "2": b"y"})
    await store.close()


class UnscannableStore(MemoryStore):
    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        raise StoreUnavailable("away")


async def test_after_a_failed_refresh_the_watch_delivers_the_write() -> None:
    store = UnscannableStore()
    await Mirror(store, "a/", SeenChanges()).refresh()
    await store.close()


async def test_many_values_are_not_reported_for_each_change() -> None:
    store, seen = MemoryStore(), SeenChanges()
    for number in range(TURN_ELEMENTS + 1):
        await put(store, f"a/{number}", b"")
    async with running(Mirror(store, "a/", seen)):
        await put(store, "a/0", b"first")
        while seen.values.get("0") != b"first":
            await asyncio.sleep(0)
        before = seen.times
        for number in range(200):
            await put(store, "a/0", b"%d" % number)
            await asyncio.sleep(0)
        while seen.values["0"] != b"199":
            await asyncio.sleep(0.01)
        assert seen.times - before < 100
    await store.close()


async def test_a_full_read_reports_pending_changes() -> None:
    store, seen = MemoryStore(), SeenChanges()
    for number in range(TURN_ELEMENTS + 1):
        await put(store, f"a/{number}", b"")
    mirror = Mirror(store, "a/", seen)
    async with running(mirror):
        for number in range(20):
            await put(store, "a/0", b"%d" % number)
            await asyncio.sleep(0)
        await mirror.refresh()
        assert seen.values["0"] == b"19"
    await store.close()
