"""Trims, merges, deletions and garbage collection, cut off between any two calls to a store."""

import asyncio
import contextlib

import pytest

from headwater.cluster_record import ClusterRecord
from headwater.errors import StoreUnavailable, UnknownTopicOrPartition
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import Incarnation, IndexEntry, ObjectRecord, Release
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.pins import Pins
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Values, Writes, prefix_end
from headwater.meta.values import decode, encode
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import ClockByHand, make_batch, read_all, running_engine
from tests.support.log.interrupted import Crash, InterruptedObjects, InterruptedStore, Interruption

GRACE = 1_000
WHOLE = LogSettings(
    inline_bytes=0,
    object_bytes=1,
    gc_grace_ms=GRACE,
    orphan_grace_ms=GRACE,
    merge_fan_in=3,
)
GROWN = LogSettings(
    inline_bytes=0,
    object_bytes=600,
    gc_grace_ms=GRACE,
    orphan_grace_ms=GRACE,
    merge_fan_in=3,
)


class GarbagePlace:
    """Stores that outlive the brokers that work on them."""

    def __init__(self, settings: LogSettings = WHOLE) -> None:
        self.settings = settings
        self.clock = ClockByHand()
        self.meta = MemoryStore()
        self.meta.database.apply(Writes(puts={keys.CLUSTER: encode(ClusterRecord(id="c"))}))
        self.objects = MemoryObjects(clock=self.clock)
        self.collector = GarbageCollector(
            self.meta, self.objects, Reclaimer(self.objects), settings, self.clock
        )

    async def write(self, values: dict[str, bytes | None]) -> None:
        def decide(_values: Values) -> tuple[Writes, None]:
            writes = Writes()
            for key, value in values.items():
                if value is None:
                    writes.delete(key)
                else:
                    writes.put(key, value)
            return writes, None

        await self.meta.transact(0, [], decide)

    async def keys(self, prefix: str) -> list[str]:
        found = await self.meta.scan(prefix, prefix_end(prefix))
        return [entry.key for entry in found.entries]

    async def referenced(self) -> set[str]:
        """The objects that some index entry names."""
        prefix = "d/0000/index/"
        found = await self.meta.scan(prefix, prefix_end(prefix))
        return {decode(IndexEntry, entry.value).key for entry in found.entries}

    async def stored(self) -> set[str]:
        return {info.key async for info in self.objects.list("wal/")}


async def fill(place: GarbagePlace) -> None:
    """Two topics in shared objects, by a broker that then leaves."""
    async with running_engine(
        place.meta,
        place.objects,
        settings=place.settings,
        clock=place.clock,
        housekeeping=False,
    ) as engine:
        kept = await engine.topics.create("kept", 2, {})
        gone = await engine.topics.create("gone", 1, {})
        for number in range(4):
            futures = [
                engine.append(kept, 0, [make_batch(b"a%d" % number, count=2)]),
                engine.append(kept, 1, [make_batch(b"b%d" % number)]),
                engine.append(gone, 0, [make_batch(b"c%d" % number)]),
            ]
            for future in futures:
                await future


async def work(engine: LogEngine, clock: ClockByHand) -> None:
    """Everything that lets go of objects."""
    kept = await engine.topics.find("kept")
    await engine.delete_records(kept, 0, 3)
    await engine.topics.delete("gone")
    await engine._maintenance.sweep()
    clock.now += GRACE
    await engine._maintenance.collect()


async def recover(place: GarbagePlace) -> None:
    """Another broker finishes what the first one left; then nothing may be left over."""
    async with running_engine(
        place.meta,
        place.objects,
        broker_id=9,
        settings=place.settings,
        clock=place.clock,
        housekeeping=False,
    ) as engine:
        assert await place.referenced() <= await place.stored()
        with contextlib.suppress(UnknownTopicOrPartition):
            await engine.topics.delete("gone")
        kept = await engine.topics.find("kept")
        await engine.delete_records(kept, 0, 3)
        for _ in range(3):
            await engine._maintenance.sweep()
            await engine._maintenance.collect()
            place.clock.now += GRACE
            assert await place.referenced() <= await place.stored()
        assert await read_all(engine, "kept", 0) == [
            (2, b"a1"),
            (4, b"a2"),
            (6, b"a3"),
        ]
        assert await read_all(engine, "kept", 1) == [(n, b"b%d" % n) for n in range(4)]
        assert await place.referenced() == await place.stored()
        assert not await place.keys(keys.releases(0))
        assert not await place.keys(keys.DELETED_TOPICS)
        records = {key.rsplit("/", 1)[0] for key in await place.keys(keys.objects(0))}
        assert records == {f"{keys.objects(0)}{key}" for key in await place.stored()}
        assert len(await place.keys(keys.incarnations(0))) == 1


@pytest.mark.parametrize("settings", [WHOLE, GROWN], ids=["whole", "grown"])
async def test_without_a_crash_only_what_is_referenced_stays(settings: LogSettings) -> None:
    place = GarbagePlace(settings)
    await fill(place)
    await recover(place)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_call_leaves_nothing_broken_and_nothing_behind(
    after: bool,
) -> None:
    number, crashed = 0, True
    while crashed:
        crashed = False
        place = GarbagePlace(GROWN if number % 2 else WHOLE)
        await fill(place)
        interruption = Interruption()
        async with running_engine(
            InterruptedStore(place.meta, interruption),
            InterruptedObjects(place.objects, interruption),
            broker_id=2,
            settings=place.settings,
            clock=place.clock,
            housekeeping=False,
        ) as engine:
            interruption.strike(range(number, number + 1), Crash(), after=after)
            try:
                await work(engine, place.clock)
            except Crash:
                crashed = True
        await recover(place)
        number += 1
    assert number > 30


async def prepare_two_parts(place: GarbagePlace, *, second: bool) -> None:
    """An object of two parts whose first has lost its only chunk."""
    await place.objects.put("wal/old/1.wo", [b"data"])
    record = ObjectRecord(size=4, parts=2, live=[], created_ms=0)
    values = {
        keys.object_record(0, "wal/old/1.wo", 0): encode(record),
        f"{keys.releases(0)}x/1": encode(Release(chunks=[("wal/old/1.wo", 0, 1)], released_ms=0)),
        keys.incarnation(0, "old"): encode(Incarnation(broker=1)),
    }
    await place.write(dict(values))
    if second:
        await commit_second_part(place)


async def commit_second_part(place: GarbagePlace) -> None:
    record = ObjectRecord(size=4, parts=2, live=[2], created_ms=0)
    await place.write({keys.object_record(0, "wal/old/1.wo", 1): encode(record)})


async def test_a_part_not_yet_committed_counts_while_its_writer_lives() -> None:
    place = GarbagePlace()
    await prepare_two_parts(place, second=False)
    assert await place.collector.collect_released() == 0
    assert await place.stored() == {"wal/old/1.wo"}
    await place.write({keys.incarnation(0, "old"): None})
    assert await place.collector.collect_released() == 1
    assert await place.stored() == set()
    assert not await place.keys("d/")


async def test_parts_that_became_more_are_waited_for() -> None:
    place = GarbagePlace()
    await prepare_two_parts(place, second=False)
    record = ObjectRecord(size=4, parts=3, live=[], created_ms=0)
    await place.write({keys.object_record(0, "wal/old/1.wo", 1): encode(record)})
    assert await place.collector.collect_released() == 0
    assert await place.stored() == {"wal/old/1.wo"}


async def test_a_part_committed_just_before_its_writer_is_fenced_is_seen() -> None:
    # Whichever call the last commit and the fencing fall before, the object stays.
    number, struck = 0, True
    while struck:
        place = GarbagePlace()
        await prepare_two_parts(place, second=False)
        interruption = Interruption()
        collector = GarbageCollector(
            InterruptedStore(place.meta, interruption),
            place.objects,
            Reclaimer(place.objects),
            WHOLE,
            place.clock,
        )
        interruption.strike(range(number, number + 1))
        collecting = asyncio.create_task(collector.collect_released())
        while interruption.calls <= number and not collecting.done():
            await asyncio.sleep(0)
        struck = not collecting.done()
        if struck:
            await commit_second_part(place)
            await place.write({keys.incarnation(0, "old"): None})
            interruption.stop()
            await collecting
            assert await place.stored() == {"wal/old/1.wo"}, f"deleted at call {number}"
        number += 1
    assert number > 3


async def test_objects_stay_for_their_grace_time() -> None:
    place = GarbagePlace()
    await place.objects.put("wal/old/1.wo", [b"data"])
    now = place.clock.now
    release = Release(chunks=[("wal/old/1.wo", 0, 1)], released_ms=now)
    record = ObjectRecord(size=4, parts=1, live=[1], created_ms=now)
    await place.write(
        {
            f"{keys.releases(0)}x/1": encode(release),
            keys.object_record(0, "wal/old/1.wo", 0): encode(record),
        }
    )
    place.clock.now += GRACE - 1
    assert await place.collector.collect_released() == 0
    place.clock.now += 1
    assert await place.collector.collect_released() == 1


async def test_many_releases_take_few_transactions() -> None:
    place = GarbagePlace()
    objects = [f"wal/old/{number:04d}.wo" for number in range(1_500)]
    for number, key in enumerate(objects):
        await place.objects.put(key, [b"data"])
        release = Release(chunks=[(key, 0, 1)], released_ms=0, stream=1, end=number)
        record = ObjectRecord(size=4, parts=1, live=[1], created_ms=0)
        await place.write(
            {
                f"{keys.releases(0)}x/{number:04d}": encode(release),
                keys.object_record(0, key, 0): encode(record),
            }
        )
    await Pins(place.meta, place.clock).put(1, 1_490, "reader", 60_000)
    before = (await place.meta.scan("", "~")).revision
    # One that ends right at the pin's first offset is not held.
    assert await place.collector.collect_released() == 1_491
    assert (await place.meta.scan("", "~")).revision - before < 100
    assert await place.stored() == set(objects[1_491:])
    assert len(await place.keys(keys.releases(0))) == len(await place.keys(keys.objects(0))) == 9


async def put_released(place: GarbagePlace, objects: list[str], *, parts: int = 1) -> None:
    """Objects of a writer that lives, all of whose parts are released."""
    await place.write({keys.incarnation(0, "old"): encode(Incarnation(broker=1))})
    for key in objects:
        await place.objects.put(key, [b"data"])
        chunks = [(key, part, 1) for part in range(parts)]
        record = encode(ObjectRecord(size=4, parts=parts, live=[1], created_ms=0))
        records = {keys.object_record(0, key, part): record for part in range(parts)}
        release = encode(Release(chunks=chunks, released_ms=0))
        await place.write({f"{keys.releases(0)}x/{key[-7:-3]}": release, **records})


async def test_an_object_of_several_parts_never_looks_like_a_growing_one() -> None:
    number, struck = 0, True
    while struck:
        place = GarbagePlace()
        await put_released(place, [f"wal/old/{n:04d}.wo" for n in range(40)], parts=3)
        interruption = Interruption()
        collector = GarbageCollector(
            InterruptedStore(place.meta, interruption),
            place.objects,
            Reclaimer(place.objects),
            WHOLE,
            place.clock,
        )
        interruption.strike(range(number, number + 1), Crash())
        with contextlib.suppress(Crash):
            await collector.collect_released()
        struck = interruption.calls > number
        await place.collector.collect_released()
        assert await place.stored() == set(), f"after a crash at call {number}"
        assert not await place.keys(keys.objects(0))
        assert not await place.keys(keys.releases(0))
        number += 7
    assert number > 20


async def test_an_object_that_cannot_be_deleted_holds_up_nothing_else() -> None:
    class Stubborn(MemoryObjects):
        async def delete(self, key: str) -> None:
            if key == "wal/old/0005.wo":
                raise StoreUnavailable(f"deleting {key} is forbidden")
            await super().delete(key)

    place = GarbagePlace()
    place.objects = Stubborn(clock=place.clock)
    await put_released(place, [f"wal/old/{n:04d}.wo" for n in range(10)])
    collector = GarbageCollector(
        place.meta, place.objects, Reclaimer(place.objects), WHOLE, place.clock
    )
    with pytest.raises(StoreUnavailable, match="0005"):
        await collector.collect_released()
    assert await place.stored() == {"wal/old/0005.wo"}
    assert len(await place.keys(keys.releases(0))) == 1


async def test_a_release_clears_its_own_streams_only() -> None:
    place = GarbagePlace()
    await place.objects.put("wal/old/1.wo", [b"data"])
    release = Release(chunks=[("wal/old/1.wo", 0, 1)], released_ms=0)
    record = ObjectRecord(size=4, parts=1, live=[1, 2], created_ms=0)
    key = keys.object_record(0, "wal/old/1.wo", 0)
    await place.write({f"{keys.releases(0)}x/1": encode(release), key: encode(record)})
    assert await place.collector.collect_released() == 0
    stored = await place.meta.get(key)
    assert stored is not None
    assert decode(ObjectRecord, stored.value).live == [2]
    assert not await place.keys(keys.releases(0))


async def test_an_incarnation_that_comes_back_is_not_fenced() -> None:
    place = GarbagePlace()
    own = keys.incarnation(0, "old")
    await place.write({own: encode(Incarnation(broker=1))})
    await place.collector.collect_orphans([])
    place.clock.now += GRACE - 1
    await place.collector.collect_orphans(["old"])
    place.clock.now += GRACE
    await place.collector.collect_orphans([])
    assert await place.meta.get(own) is not None
    place.clock.now += GRACE
    await place.collector.collect_orphans([])
    assert await place.meta.get(own) is None
    assert not place.collector._orphans.missing_since


async def test_what_a_living_writer_uploads_is_never_an_orphan() -> None:
    place = GarbagePlace()
    await place.write({keys.incarnation(0, "new"): encode(Incarnation(broker=1))})
    await place.objects.put("wal/new/1.wo", [b"data"])
    await place.objects.put("wal/old/1.wo", [b"data"])
    place.clock.now += 10 * GRACE
    assert await place.collector.collect_orphans(["new"]) == 1
    assert await place.stored() == {"wal/new/1.wo"}
