"""What a broker that has not heard of the others' changes may say, in one process."""

from collections.abc import Awaitable, Callable

from headwater.clock import SystemClock
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import Entry
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, payloads, read_once, running_engine

SETTINGS = LogSettings(merge_fan_in=2)


async def test_a_merged_entry_is_read_only_up_to_the_replys_high_watermark() -> None:
    database, objects = MemoryDatabase(), MemoryObjects(clock=SystemClock())
    meta = MemoryStore(database=database)
    async with (
        running_engine(meta, objects, settings=SETTINGS, housekeeping=False) as writing,
        running_engine(meta, objects, broker_id=2, housekeeping=False) as lagging,
    ):
        topic = await writing.topics.create("t", 1, {})
        for number in range(2):
            await append(writing, "t", [make_batch(b"%d" % number)])
        assert (await lagging.offsets(topic, 0)).high_watermark == 2
        for number in range(2, 4):
            await append(writing, "t", [make_batch(b"%d" % number)])
        await writing._maintenance.merge_recent()
        read = await read_once(lagging, "t", 0, 0)
        assert read.offsets.high_watermark == 2
        assert payloads(read) == [(0, b"0"), (1, b"1")]


async def test_a_duplicate_is_readable_through_the_broker_that_acknowledged_it() -> None:
    database, objects = MemoryDatabase(), MemoryObjects(clock=SystemClock())
    meta = MemoryStore(database=database)
    async with (
        running_engine(meta, objects, housekeeping=False) as first,
        running_engine(meta, objects, broker_id=2, housekeeping=False) as second,
    ):
        topic = await first.topics.create("t", 1, {})
        assert (await second.offsets(topic, 0)).high_watermark == 0
        batch = make_batch(b"once", producer_id=7, epoch=0, sequence=0)
        assert await append(first, "t", [batch]) == 0
        assert await append(second, "t", [batch]) == 0
        assert payloads(await read_once(second, "t", 0, 0)) == [(0, b"once")]


class InterposedStore(MemoryStore):
    """Lets something happen between the reads of a stream's tail and of its layout."""

    between: Callable[[], Awaitable[object]] | None = None

    async def get(self, key: str) -> Entry | None:
        if "/layout/" in key and (between := self.between) is not None:
            self.between = None
            await between()
        return await super().get(key)


async def test_bounds_read_while_the_log_start_moves_call_no_offset_out_of_range() -> None:
    database, objects = MemoryDatabase(), MemoryObjects(clock=SystemClock())
    interrupted = InterposedStore(database=database)
    async with (
        running_engine(MemoryStore(database=database), objects, housekeeping=False) as writing,
        running_engine(interrupted, objects, broker_id=2, housekeeping=False) as reading,
    ):
        topic = await writing.topics.create("t", 1, {})
        await append(writing, "t", [make_batch(b"old")])
        await reading.topics.find("t")

        async def grow_and_trim() -> None:
            await append(writing, "t", [make_batch(b"older", count=4)])
            assert await writing.delete_records(topic, 0, -1) == 5

        interrupted.between = grow_and_trim
        read = await read_once(reading, "t", 0, 5)
        assert read.offsets.log_start == 5
        assert read.offsets.high_watermark == 5
