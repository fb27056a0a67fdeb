"""Snapshots of the metadata: when they are taken, and what they keep alive."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import pytest

from headwater.errors import CorruptMessage
from headwater.log.formats.snapshot_file import (
    SnapshotDescription,
    decode_snapshot,
    encode_snapshot,
)
from headwater.log.reclaim.garbage import SNAPSHOT_LIFE_MS
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.restore import restore, snapshots_in
from headwater.log.restore.snapshots import Snapshotter, horizon, kept_snapshots
from tests.support.log.harness import append, make_batch, read_all
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, TickingClock, values

T = TypeVar("T")

NO_SNAPSHOTS = dataclasses.replace(OBJECTS_ONLY, snapshot_interval_ms=0)


async def test_garbage_that_a_snapshot_refers_to_stays_until_the_snapshot_goes() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        for number in range(4):
            await append(engine, "t", [make_batch(f"{number}".encode())])
        await place.snapshot()
        kept = {info.key async for info in place.objects.list("wal/")}
        await append(engine, "t", [make_batch(b"late")])
        await engine.delete_records(topic, 0, -1)
        assert await place.collector().collect_released() == 0
        assert kept <= {info.key async for info in place.objects.list("wal/")}
        await place.snapshot()
        assert await place.collector().collect_released() == 0
        await place.snapshot()
        assert await place.collector().collect_released() == 5
    assert len(await snapshots_in(place.objects)) == len(await kept_snapshots(place.meta)) == 2


async def test_a_trimmed_and_collected_log_comes_back_as_the_oldest_kept_snapshot_has_it() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"old")])
        await place.snapshot()
        await append(engine, "t", [make_batch(b"late")])
        await engine.delete_records(topic, 0, -1)
        await place.snapshot()
        await place.collector().collect_released()
    place.lose_metadata()
    oldest, newest = await snapshots_in(place.objects)
    done = await restore(place.meta, place.objects, place.clock, snapshot=oldest)
    assert done.snapshot == oldest != newest
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"old", b"late"]


async def test_a_snapshot_that_is_being_taken_holds_garbage_back() -> None:
    place = RestorePlace()
    async with place.engine():
        assert await horizon(place.meta) is None
        before = place.meta.database.revision

        async def look(function: Callable[[], T]) -> T:
            held = await horizon(place.meta)
            assert held is not None
            assert held <= before + 1
            return function()

        snapshotter = Snapshotter(
            place.meta,
            place.objects,
            Reclaimer(place.objects),
            place.clock,
            incarnation=lambda: "x",
            kept=1,
            offload=look,
        )
        await snapshotter.take()
        assert await horizon(place.meta) == before + 1


async def test_a_snapshot_that_another_overtook_is_dropped() -> None:
    place = RestorePlace()
    async with place.engine():

        async def overtaken(function: Callable[[], T]) -> T:
            await place.snapshot()
            return function()

        late = Snapshotter(
            place.meta,
            place.objects,
            Reclaimer(place.objects),
            place.clock,
            incarnation=lambda: "y",
            kept=2,
            offload=overtaken,
        )
        assert await late.take() is None
        (kept,) = await kept_snapshots(place.meta)
        assert await snapshots_in(place.objects) == [kept.key]


async def test_one_that_was_given_up_is_older_than_those_after_it_whatever_its_clock() -> None:
    """What it refers to is not kept: restored, it would lack objects."""
    place = RestorePlace(whole=True)
    ahead = TickingClock()
    ahead.now += 3_600_000
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"old")])

        async def overtaken(function: Callable[[], T]) -> T:
            await place.snapshot()
            return function()

        late = Snapshotter(
            place.meta,
            place.objects,
            Reclaimer(place.objects),
            ahead,
            incarnation=lambda: "y",
            kept=2,
            offload=overtaken,
        )
        assert await late.take() is None
        for number in range(3):
            await append(engine, "t", [make_batch(b"%d" % number)])
        await engine._current.merger.merge(topic.streams)
        for _ in range(3):
            await place.snapshot()
        await place.collector().collect_released()
        kept = await kept_snapshots(place.meta)
    assert await snapshots_in(place.objects) == [each.key for each in kept]
    place.lose_metadata()
    assert (await place.restore()).snapshot == kept[-1].key
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"old", b"0", b"1", b"2"]


async def test_what_was_restored_is_kept_until_the_next_snapshots() -> None:
    """The metadata may be lost again before there are any."""
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        for number in range(4):
            await append(engine, "t", [make_batch(b"%d" % number)])
        await place.snapshot()
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        await engine._current.merger.merge(topic.streams)
        assert await place.collector().collect_released() == 0
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"0", b"1", b"2", b"3"]
        await engine._current.merger.merge(topic.streams)
        for _ in range(2):
            await place.snapshot()
        assert await place.collector().collect_released() == 4


async def test_old_snapshots_expire_after_a_day_without_new_ones() -> None:
    place = RestorePlace(whole=True)
    async with place.engine(settings=NO_SNAPSHOTS) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await place.snapshot()
        await engine.delete_records(topic, 0, -1)
        await engine._maintenance.collect()
        assert len(await snapshots_in(place.objects)) == len(await kept_snapshots(place.meta)) == 1
        assert await wal_objects(place) == 1
        place.clock.now += SNAPSHOT_LIFE_MS
        await engine._maintenance.collect()
        assert not await snapshots_in(place.objects)
        assert not await kept_snapshots(place.meta)
        assert await wal_objects(place) == 0


async def test_where_they_are_taken_the_old_ones_stay_until_newer_ones_are_there() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        await place.snapshot()
        place.clock.now += SNAPSHOT_LIFE_MS
        await engine._maintenance.collect()
        assert len(await snapshots_in(place.objects)) == 1


async def wal_objects(place: RestorePlace) -> int:
    return len([info async for info in place.objects.list("wal/")])


def test_a_snapshot_with_a_wrong_byte_is_refused() -> None:
    told = SnapshotDescription(
        cluster="c", epoch=0, level=2, revision=3, taken_ms=4, entries=1, bytes=2, incarnation="i"
    )
    items = [("a", b"1"), ("b", b"2" * 500)]
    data = bytearray(b"".join(encode_snapshot(told, items)))
    assert decode_snapshot(data) == (told, items)
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(CorruptMessage):
            decode_snapshot(damaged)


async def test_snapshots_are_taken_when_they_are_due_and_not_more_often() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine._maintenance.snapshot()
        await engine._maintenance.snapshot()
        assert len(await kept_snapshots(place.meta)) == 1
        place.clock.now += OBJECTS_ONLY.snapshot_interval_ms
        await engine._maintenance.snapshot()
        assert len(await kept_snapshots(place.meta)) == 2


async def test_one_from_the_future_does_not_put_the_next_off() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        place.clock.now += 86_400_000
        await engine._maintenance.snapshot()
        place.clock.now -= 86_400_000
        await engine._maintenance.snapshot()
        first, second = await kept_snapshots(place.meta)
        assert first.taken_ms > second.taken_ms
        assert first.key < second.key
