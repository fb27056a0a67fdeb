"""Snapshots of many keys: written in parts, and given up for garbage collection if they fail."""

import dataclasses
from collections.abc import AsyncGenerator
from random import Random

import pytest

from headwater.errors import CorruptMessage, ObjectNotFound, StoreUnavailable
from headwater.log.formats.snapshot_file import part_key
from headwater.log.reclaim.garbage import SNAPSHOT_LIFE_MS
from headwater.log.restore.restore import snapshots_in
from headwater.log.restore.snapshots import kept_snapshots, read_snapshot
from headwater.meta.store import Scan, Writes
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, read_all, running_engine
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, values
from tests.support.meta.faulty import FaultyStore


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.log.restore.snapshots.PAGE", 3)
    monkeypatch.setattr("headwater.log.restore.snapshots.PART_BYTES", 50)


async def below(objects: MemoryObjects, prefix: str) -> list[str]:
    return [info.key async for info in objects.list(prefix)]


@pytest.mark.usefixtures("small_parts")
async def test_a_snapshot_in_parts_restores_every_key() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 3, {})
        for number in range(5):
            await append(engine, "t", [make_batch(b"%d" % number)])
        taken = await place.snapshot()
    (key,) = await snapshots_in(place.objects)
    assert taken.parts > 1
    assert await below(place.objects, "snapshots/") == [
        key, *(part_key(key, number) for number in range(taken.parts))
    ]  # fmt: skip
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"%d" % number for number in range(5)]


@pytest.mark.usefixtures("small_parts")
async def test_no_more_than_a_part_is_given_to_the_object_store_at_once() -> None:
    place = RestorePlace()
    puts = {f"x/{number:04d}": Random(number).randbytes(20) for number in range(400)}
    place.meta.database.apply(Writes(puts=puts))
    async with place.engine():
        await place.snapshot()
    sizes = [info.size async for info in place.objects.list("snapshots/")]
    assert max(sizes) < 700
    (key,) = await snapshots_in(place.objects)
    _, items = await read_snapshot(place.objects, key)
    assert puts.items() <= dict(items).items()


@pytest.mark.usefixtures("small_parts")
async def test_a_snapshot_without_one_of_its_parts_is_refused() -> None:
    place = RestorePlace()
    async with place.engine():
        taken = await place.snapshot()
    (key,) = await snapshots_in(place.objects)
    one, other = part_key(key, 0), part_key(key, taken.parts - 1)
    data = await place.objects.get(one)
    await place.objects.delete(other)
    with pytest.raises(ObjectNotFound):
        await read_snapshot(place.objects, key)
    await place.objects.put(other, [b"HWMS", data[4:]])
    damaged = bytearray(data)
    damaged[20] ^= 1
    await place.objects.delete(one)
    await place.objects.put(one, [damaged])
    with pytest.raises(CorruptMessage):
        await read_snapshot(place.objects, key)


@pytest.mark.usefixtures("small_parts")
async def test_parts_go_with_their_snapshot() -> None:
    place = RestorePlace()
    async with place.engine():
        first = await place.snapshot(kept=1)
        (key,) = await snapshots_in(place.objects)
        await place.objects.put(part_key("snapshots/0000000000/000000000000001-y.hwms", 0), [b"x"])
        await place.snapshot(kept=1)
        (kept,) = await snapshots_in(place.objects)
    assert first.parts
    assert kept != key
    left = await below(place.objects, "snapshots/")
    assert left == [kept, *(name for name in left if name.startswith(part_key(kept, 0)[:-6]))]
    place.clock.now += SNAPSHOT_LIFE_MS + 1
    assert await place.collector().collect_snapshots() == 1
    assert await below(place.objects, "snapshots/") == []


class Unscannable(FaultyStore):
    """Gives up each scan of everything while it is ``failing``."""

    failing = False

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        if self.failing:
            raise StoreUnavailable("the scan takes too long")
        async for page in super().scan_pages(start, end, size=size):
            yield page


async def test_failing_snapshots_are_reported_and_keep_garbage_for_a_day() -> None:
    place = RestorePlace(whole=True)
    store = Unscannable(place.meta, Random(1))
    settings = dataclasses.replace(OBJECTS_ONLY, snapshot_interval_ms=1)
    async with running_engine(
        store, place.objects, settings=settings, clock=place.clock, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x")])
        await engine._maintenance.snapshot()
        await engine.delete_records(topic, 0, -1)
        await engine._maintenance.collect()
        assert await below(place.objects, "wal/")
        assert len(await kept_snapshots(place.meta)) == 1
        store.failing = True
        for _ in range(2):
            place.clock.now += SNAPSHOT_LIFE_MS // 2 + 1
            with pytest.raises(StoreUnavailable):
                await engine._maintenance.snapshot()
            engine._metrics.refresh()
            assert await below(place.objects, "wal/")
            await engine._maintenance.collect()
        assert engine._metrics.snapshot_failing_seconds.value >= SNAPSHOT_LIFE_MS / 2 / 1000
        place.clock.now += SNAPSHOT_LIFE_MS // 2
        await engine._maintenance.collect()
        assert await below(place.objects, "wal/") == []
        assert await kept_snapshots(place.meta) == []
        store.failing = False
        await engine._maintenance.snapshot()
        engine._metrics.refresh()
        assert engine._metrics.snapshot_failing_seconds.value == 0
    assert len(await kept_snapshots(place.meta)) == 1
