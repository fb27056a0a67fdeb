"""A metadata store that went back to an earlier state is noticed, and deletes nothing."""

import asyncio

import pytest

from headwater.errors import ConfigurationError
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.bookmarks import BOOKMARKS, add_bookmark, check_bookmark
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Writes
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, read_all
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, values
from tests.support.simulation.loop import on_simulated_time
from tests.unit.log.restore.test_rival_clusters import PagedObjects, YieldingObjects

WENT_BACK = "went back to an earlier state: .* run headwater restore"


def copy_of(store: MemoryStore) -> MemoryStore:
    """The store's entries under other revisions, as a backup brings them back."""
    copy = MemoryStore()
    copy.database.revision = 1_000_000
    puts = {key: entry.value for key, entry in store.database.entries.items()}
    copy.database.apply(Writes(puts=puts))
    return copy


async def objects_below(objects: MemoryObjects, prefix: str) -> list[str]:
    return [info.key async for info in objects.list(prefix)]


@on_simulated_time
async def test_a_store_older_than_the_last_snapshot_is_refused_and_a_restore_goes_on() -> None:
    place = RestorePlace(whole=True)
    record = await place.claim()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        backup = copy_of(place.meta)
        await append(engine, "t", [make_batch(b"b")])
        await place.snapshot()
    place.meta = backup
    with pytest.raises(ConfigurationError, match=WENT_BACK):
        await add_bookmark(backup, place.objects, Reclaimer(place.objects), record)
    with pytest.raises(ConfigurationError, match=WENT_BACK):
        await place.snapshot()
    place.lose_metadata()
    await place.restore()
    await add_bookmark(place.meta, place.objects, Reclaimer(place.objects), await place.claim())
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"a", b"b"]
        await place.snapshot()


@on_simulated_time
async def test_a_store_that_went_back_deletes_nothing() -> None:
    place = RestorePlace(whole=True)
    await place.claim()
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await engine.delete_records(topic, 0, -1)
        backup = copy_of(place.meta)
        await append(engine, "t", [make_batch(b"b")])
        await place.snapshot()
    before = await objects_below(place.objects, "")
    collector = GarbageCollector(
        backup, place.objects, Reclaimer(place.objects), OBJECTS_ONLY, place.clock
    )
    with pytest.raises(ConfigurationError, match=WENT_BACK):
        await collector.collect_released()
    with pytest.raises(ConfigurationError, match=WENT_BACK):
        await collector.collect_orphans(())
    assert await objects_below(place.objects, "") == before


@on_simulated_time
async def test_a_store_that_goes_back_during_a_collection_deletes_nothing_more() -> None:
    place = RestorePlace(whole=True)
    place.objects = objects = PagedObjects(clock=place.clock)
    await place.claim()
    files = [f"wal/0-1-dead/{number:012d}.wo" for number in range(3)]
    for key in files:
        await objects.put(key, [b"of a broker that was fenced"])
    backup = copy_of(place.meta)
    records = {keys.object_record(0, key, 0): b"" for key in files[1:]}
    place.meta.database.apply(Writes(puts=records))
    await place.snapshot()
    store = place.meta

    async def goes_back() -> None:
        store.database = backup.database

    collector = place.collector()
    objects.between = goes_back
    with pytest.raises(ConfigurationError, match=WENT_BACK):
        await collector.collect_orphans(())
    assert await objects_below(objects, "wal/") == files


@on_simulated_time
async def test_a_running_broker_notices_that_its_store_went_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.log.restore.claim.LOOK_SECONDS", 0.01)
    place = RestorePlace()
    async with place.engine() as engine:
        backup = copy_of(place.meta)
        await place.snapshot()
        running = asyncio.create_task(engine.run())
        await asyncio.sleep(0.05)
        assert not running.done()
        place.meta.database.entries.update(backup.database.entries)
        place.meta.database.apply(Writes(deletes=["next/bookmark"]))
        with pytest.raises(BaseExceptionGroup) as ended:
            await asyncio.wait_for(running, 5)
    assert ended.group_contains(ConfigurationError, match=WENT_BACK)


@on_simulated_time
async def test_an_emptied_store_is_distinguished_from_one_that_went_back() -> None:
    place = RestorePlace()
    record = await place.claim()
    await add_bookmark(place.meta, place.objects, Reclaimer(place.objects), record)
    place.meta.database.entries.clear()
    with pytest.raises(ConfigurationError, match="the metadata store was emptied"):
        await check_bookmark(place.meta, place.objects, record)


@on_simulated_time
async def test_brokers_that_start_at_once_do_not_refuse_each_other() -> None:
    place = RestorePlace()
    place.objects = YieldingObjects(clock=place.clock)
    record = await place.claim()
    for _ in range(3):
        await asyncio.gather(
            *(
                add_bookmark(place.meta, place.objects, Reclaimer(place.objects), record)
                for _ in range(4)
            ),
            *(check_bookmark(place.meta, place.objects, record) for _ in range(4)),
        )
    kept = await objects_below(place.objects, BOOKMARKS)
    assert kept[-1] == f"{BOOKMARKS}{0:010d}/{12:015d}"
    await add_bookmark(place.meta, place.objects, Reclaimer(place.objects), record)
    assert len(await objects_below(place.objects, BOOKMARKS)) == 1
