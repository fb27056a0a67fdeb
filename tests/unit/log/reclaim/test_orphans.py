"""How often objects are listed to find orphans of dead brokers."""

from collections.abc import AsyncIterator
from math import ceil

from headwater.log.formats.metadata_values import Incarnation, ObjectRecord
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.orphans import SETTLED_MS, fence
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.meta import keys
from headwater.meta.store import Writes
from headwater.meta.values import encode
from headwater.objects.store import ObjectInfo
from tests.support.log.harness import WholeObjects
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace

OBJECTS = 5_000
PAGE = 1_000
"""Objects that S3 lists in one request."""
BROKERS = 3
PASSES_PER_HOUR = 120


class CountedLists(WholeObjects):
    """Counts requests as S3 does."""

    requests = 0

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        found = [info async for info in super().list(prefix)]
        self.requests += max(1, ceil(len(found) / PAGE))
        for info in found:
            yield info


async def dead_broker(place: RestorePlace, name: str, count: int) -> None:
    """Objects with their records, of an incarnation that is registered no more."""
    puts = {keys.incarnation(0, name): encode(Incarnation(broker=1))}
    for number in range(count):
        key = f"wal/{name}/{number:012d}.wo"
        await place.objects.put(key, [b"x"])
        record = ObjectRecord(size=1, parts=1, live=[1], created_ms=0)
        puts[keys.object_record(0, key, 0)] = encode(record)
    place.meta.database.apply(Writes(puts=puts))


async def test_objects_are_listed_by_one_broker_and_once_a_day() -> None:
    place = RestorePlace(whole=True)
    place.objects = objects = CountedLists(clock=place.clock)
    await dead_broker(place, "old", OBJECTS)
    await fence(place.meta, "old")
    brokers = [
        GarbageCollector(place.meta, objects, Reclaimer(objects), OBJECTS_ONLY, place.clock)
        for _ in range(BROKERS)
    ]
    hours = []
    for _ in range(26):
        before = objects.requests
        for _ in range(PASSES_PER_HOUR):
            place.clock.now += 3_600_000 // PASSES_PER_HOUR
            for number, broker in enumerate(brokers):
                assert await broker.collect_orphans((), search=number == 0) == 0
        hours.append(objects.requests - before)
    whole = OBJECTS // PAGE
    # Everything at first and after a day; what the fenced broker wrote after 0, 0.5, 1, 2, 4, 8,
    # 16, 32 and 64 minutes.
    assert hours == [9 * whole, whole, *[0] * 22, whole, 0]


async def test_an_object_that_lands_after_its_writer_was_fenced_is_found() -> None:
    place = RestorePlace(whole=True)
    await place.claim()
    collector = place.collector()
    assert await collector.collect_orphans(()) == 0
    await dead_broker(place, "old", 3)
    place.clock.now += 1
    await collector.collect_orphans(())
    await place.objects.put("wal/old/9.wo", [b"a PUT that was under way"])
    assert await collector.collect_orphans(()) == 0
    place.clock.now += OBJECTS_ONLY.gc_interval_ms
    assert await collector.collect_orphans(()) == 1
    await place.objects.put("wal/old/9.wo", [b"a PUT that was under way for long"])
    place.clock.now += SETTLED_MS
    assert await collector.collect_orphans(()) == 1
    assert len([info async for info in place.objects.list("wal/old/")]) == 3
    assert (await place.meta.scan(keys.fenced(0), keys.fenced(0) + "~")).entries == []
