"""Two that work on the same objects at once: clusters, restores, and one that was left behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import TypeVar

import pytest

from headwater.clock import SystemClock
from headwater.errors import ConfigurationError
from headwater.log.engine import open_cluster
from headwater.log.jobs.jobs import TABLES
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.claim import claim_objects
from headwater.log.restore.restore import restore
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import CommitResult, Decide
from headwater.objects.memory import MemoryObjects
from headwater.objects.store import Buffer, ObjectInfo
from tests.support.log.harness import WholeObjects, append, make_batch, read_all
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, values

T = TypeVar("T")


class YieldingObjects(MemoryObjects):
    """Lets others go on at every call."""

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await asyncio.sleep(0)
        await super().put(key, parts)

    async def get(self, key: str) -> bytearray:
        await asyncio.sleep(0)
        return await super().get(key)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        await asyncio.sleep(0)
        async for info in super().list(prefix):
            yield info


async def test_of_two_clusters_that_start_at_once_one_is_refused() -> None:
    objects = YieldingObjects(clock=SystemClock())
    stores = [MemoryStore(), MemoryStore()]
    clusters = [await open_cluster(store, Random(number)) for number, store in enumerate(stores)]
    done = await asyncio.gather(
        *(
            claim_objects(meta, objects, cluster, "memory:")
            for meta, cluster in zip(stores, clusters, strict=True)
        ),
        return_exceptions=True,
    )
    (refused,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(refused, ConfigurationError)
    (winner,) = [number for number, each in enumerate(done) if each is not refused]
    await claim_objects(stores[winner], objects, clusters[winner], "memory:")


async def test_of_two_restores_into_two_stores_at_once_one_is_refused() -> None:
    place = RestorePlace()
    place.objects = YieldingObjects(clock=place.clock)
    async with place.engine():
        await place.snapshot()
    done = await asyncio.gather(
        *(restore(MemoryStore(), place.objects, place.clock) for _ in range(2)),
        return_exceptions=True,
    )
    (refused,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(refused, ConfigurationError)
    assert "another restore of these objects has begun" in str(refused)


async def test_what_a_superseded_broker_acknowledges_until_it_ends_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker notices a restore a while after it has begun; the restore reads objects later."""
    monkeypatch.setattr("headwater.log.restore.claim.LOOK_SECONDS", 0.05)
    place = RestorePlace(whole=True)
    old = place.meta
    async with place.engine() as engine:
        running = asyncio.create_task(engine.run())
        await engine.topics.create("t", 1, {})
        await place.snapshot()
        steps: list[str] = []
        waits = asyncio.Event()

        def watch(doing: str, _done: int, _total: int) -> None:
            steps.append(doing)
            if doing.startswith("Waiting for brokers"):
                waits.set()

        place.lose_metadata()
        done = asyncio.create_task(
            restore(place.meta, place.objects, place.clock, wait_s=0.5, watch=watch)
        )
        await waits.wait()
        assert await append(engine, "t", [make_batch(b"late")]) == 0
        with pytest.raises(BaseExceptionGroup):
            await asyncio.wait_for(running, 5)
        await done
    assert old is not place.meta
    async with place.engine(2) as engine:
        assert values(await read_all(engine, "t")) == [b"late"]


class StoppedStore(MemoryStore):
    """Its process is stopped before the first transaction that writes a stream's tail."""

    def __init__(self, database: MemoryDatabase) -> None:
        super().__init__(database=database)
        self.reached, self.goes_on = asyncio.Event(), asyncio.Event()

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        writes, _ = decide({key: self.database.entries.get(key) for key in keys})
        if any("/tail/" in key for key in writes.puts):
            self.reached.set()
            await self.goes_on.wait()
        return await super().transact(domain, keys, decide)


async def test_a_restore_that_another_overtook_writes_no_more() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await place.snapshot()
    place.lose_metadata()
    slow = StoppedStore(place.meta.database)
    first = asyncio.create_task(restore(slow, place.objects, place.clock))
    await slow.reached.wait()
    assert (await place.restore()).epoch == 2
    async with place.engine() as engine:
        assert await append(engine, "t", [make_batch(b"b")]) == 1
        slow.goes_on.set()
        with pytest.raises(ConfigurationError, match="another restore into this metadata store"):
            await first
    async with place.engine(2) as engine:
        assert values(await read_all(engine, "t")) == [b"a", b"b"]


class PagedObjects(WholeObjects):
    """Objects that are listed one by one; something happens after the first below a prefix."""

    between: Callable[[], Awaitable[None]] | None = None
    below = "wal/"

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        last = ""
        while page := [info async for info in super().list(prefix) if info.key > last][:1]:
            last = page[0].key
            yield page[0]
            if prefix == self.below and self.between is not None:
                between, self.between = self.between, None
                await between()


async def test_a_collection_deletes_nothing_of_a_cluster_restored_meanwhile() -> None:
    place = RestorePlace(whole=True)
    place.objects = objects = PagedObjects(clock=place.clock)
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        living = [engine.incarnation]
        await place.claim()
        await place.snapshot()
    await objects.put("wal/0-1-dead/000000000001.wo", [b"an orphan of a fenced broker"])
    left_behind = place.meta

    async def restored_elsewhere() -> None:
        place.lose_metadata()
        await place.restore()
        async with place.engine(7) as engine:
            assert await append(engine, "t", [make_batch(b"b")]) == 1

    objects.between = restored_elsewhere
    collector = GarbageCollector(
        left_behind, objects, Reclaimer(objects), OBJECTS_ONLY, place.clock
    )
    with pytest.raises(ConfigurationError):
        await collector.collect_orphans(living)
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"a", b"b"]


async def test_a_file_that_a_restore_kept_meanwhile_is_not_taken_for_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.log.reclaim.garbage.FILES_AT_ONCE", 1)
    place = RestorePlace(whole=True)
    place.objects = objects = PagedObjects(clock=place.clock)
    objects.below = TABLES
    await place.claim()
    await place.snapshot()
    lost, kept = (f"{TABLES}7f/data/0/0-{end}-0a1b-try.parquet" for end in (1, 2))
    for file in (lost, kept):
        await objects.put(file, [b"rows"])
    left_behind = place.meta

    async def restored_elsewhere() -> None:
        place.lose_metadata()
        assert (await place.restore()).adopted == 1

    collector = GarbageCollector(
        left_behind, objects, Reclaimer(objects), OBJECTS_ONLY, place.clock
    )
    objects.between = restored_elsewhere
    # The first was deleted before the restore began.
    with pytest.raises(ConfigurationError):
        await collector.collect_lost_files()
    assert [info.key async for info in objects.list(TABLES)] == [kept]
