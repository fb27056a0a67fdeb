"""What becomes of a job's files, beside trims, deleted topics and pins."""

import pytest

from headwater.log.formats.metadata_values import PARQUET, WAL
from headwater.log.jobs.jobs import (
    CREATED,
    ICEBERG_COMMITTED,
    INDEX_SWAPPED,
    PARQUET_WRITTEN,
)
from headwater.log.reclaim.pins import Pins
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.meta import keys
from headwater.meta.store import Limits
from tests.support.log.compaction import read_range
from tests.support.log.harness import read_all
from tests.support.log.job_place import GRACE, JobPlace, created, read_all_values


async def test_what_is_set_aside_stays_as_it_is_and_says_so() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        batches = await read_range(engine, topic, 0, 0, 20)
        head = await place.compactor.write(job, batches, 0, 6, dropped=range(6, 20))
        tail = await place.compactor.write(job, batches, 8, 20, dropped=range(8))
        with pytest.raises(ValueError, match="6 is next"):
            await place.steps.fix(job, [head, tail])
        half = await place.compactor.write(job, batches, 7, 20, dropped=range(7))
        with pytest.raises(ValueError, match="in part"):
            await place.steps.fix(job, [head, half], [(6, 7, "bad")])
        fixed = await place.steps.fix(job, [head, tail], [(6, 8, "bad")])
        assert fixed is not None
        await place.compactor.run_jobs(fixed)
        entries = await place.index(topic)
        assert [(entry.start, entry.kind, entry.set_aside) for entry in entries] == [
            (0, PARQUET, ""), (6, WAL, "bad"), (8, PARQUET, ""),
        ]  # fmt: skip
    async with place.engine(2) as fresh:
        assert len(await read_all_values(fresh, topic)) == 20
        await place.collect()
        assert len(await read_all_values(fresh, topic)) == 20


async def test_files_below_log_start_are_not_put_in() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic, start=0, end=12)
        batches = await read_range(engine, topic, 0, 0, 12)
        low = await place.compactor.write(job, batches, 0, 6, dropped=range(6, 12))
        high = await place.compactor.write(job, batches, 6, 12, dropped=range(6))
        fixed = await place.steps.fix(job, [low, high])
        assert fixed is not None
        await engine._trimmer.advance(topic.streams[0], 7)
        sizes = dict(await engine.sizes(topic.streams))
        await place.compactor.run_jobs(fixed)
        entries = await place.index(topic)
        assert [entry.start for entry in entries][:2] == [6, 12]
        assert (await engine.sizes(topic.streams))[topic.streams[0]] < sizes[topic.streams[0]]
        (noted,) = [note async for note in place.releases.waiting()]
        assert noted.files == [low.key]
        await place.collect()
        assert await place.files() == {low.key, high.key}
        await place.let_all_go()
        await place.collect()
        assert await place.files() == {high.key}
        await engine.delete_records(topic, 0, 12)
        await place.let_all_go()
        await place.collect()
        assert await place.files() == set()
        assert await place.there(keys.objects(0) + "tables/") == []


async def test_a_trim_of_the_whole_range_under_a_job_leaves_nothing_in_the_index() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic, start=0, end=12)
        file = await place.written(engine, topic, job)
        fixed = await place.steps.fix(job, [file])
        assert fixed is not None
        await engine.delete_records(topic, 0, 14)
        await place.compactor.run_jobs(fixed)
        assert [entry.start for entry in await place.index(topic)] == [14, 16, 18]
        await place.let_all_go()
        await place.collect()
        assert await place.files() == set()


@pytest.mark.parametrize("state", [CREATED, PARQUET_WRITTEN, ICEBERG_COMMITTED, INDEX_SWAPPED])
async def test_deleting_a_topic_ends_its_job(state: int) -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        file = await place.written(engine, topic, job)
        if state >= PARQUET_WRITTEN:
            await place.steps.fix(job, [file])
        if state >= ICEBERG_COMMITTED:
            await place.steps.mark_committed(job)
        if state >= INDEX_SWAPPED:
            await place.steps.swap(job)
        await engine.topics.delete("t")
        await engine._maintenance.collect()
        assert await place.steps.open_jobs() == []
        assert await place.steps.fix(job, [file]) is None
        assert await place.steps.swap(job) is None
        await place.collect()
        # What a table may hold waits for the table; what none does is gone.
        assert await place.files() == (set() if state == CREATED else {file.key})
        await place.let_all_go()
        await place.collect()
        assert await place.files() == set()
        assert await place.index(topic) == []


async def test_files_are_released_one_by_one_and_once() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        for start in range(0, 20, 4):
            await place.compactor.compact(engine, topic, start=start, end=start + 4)
        await engine.delete_records(topic, 0, 20)
        (noted,) = [note async for note in place.releases.waiting()]
        assert len(noted.files) == 5
        for count in range(5, 0, -1):
            await place.collect()
            assert len(await place.files()) == count
            for _ in range(2):
                await place.releases.let_go(noted, [noted.files[count - 1]])
        await place.collect()
        assert await place.files() == set()
        assert await place.there(keys.table_releases(0)) == []
        assert not [key for key in await place.there(keys.releases(0)) if "/table-" in key]


async def test_a_pin_holds_back_what_was_released_after_it() -> None:
    place = JobPlace()
    pins = Pins(place.meta, place.clock)
    async with place.engine() as engine:
        topic = await place.fill(engine)
        stream = topic.streams[0]
        objects = {entry.key for entry in await place.index(topic)}
        await pins.put(stream, 8, "reader", 10 * GRACE)
        await pins.put(stream + 1, 0, "of another stream", 100 * GRACE)
        await engine.delete_records(topic, 0, 8)
        await place.collect()
        assert len({info.key async for info in place.objects.list("wal/")}) == len(objects) - 4
        await engine.delete_records(topic, 0, 12)
        await place.collect()
        await place.collect()
        assert len({info.key async for info in place.objects.list("wal/")}) == len(objects) - 4
        place.clock.now += 10 * GRACE
        await place.collect()
        assert len({info.key async for info in place.objects.list("wal/")}) == len(objects) - 6
        assert await place.there(keys.pins(0)) == [keys.pin(0, stream + 1, "of another stream")]
        async with pins.held(stream, 0, "a/b", 5000):
            assert keys.pin(0, stream, "a/b") in await place.there(keys.pins(0))
        assert len(await place.there(keys.pins(0))) == 1


async def test_only_files_that_no_manifest_can_name_are_lost() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        file = await place.written(engine, topic, job)
        foreign = [f"tables/{topic.id}/metadata/v1.json", f"tables/{topic.id}/data/0/part.parquet"]
        for key in foreign:
            await place.objects.put(key, [b"x"])
        await place.collect()
        assert await place.files() == {file.key, *foreign}
        assert await place.steps.give_up(job) is None
        assert await place.collector.collect_lost_files() == 1
        assert await place.files() == set(foreign)


async def test_a_job_ends_early_where_the_store_takes_no_more() -> None:
    place = JobPlace(Limits(operations=13))
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic, start=0, end=20)
        files = [
            await place.compactor.write(
                job, await read_range(engine, topic, 0, at, at + 2), at, at + 2
            )
            for at in range(0, 20, 2)
        ]
        fixed = await place.steps.fix(job, files)
        assert fixed is not None
        assert (fixed.end, fixed.files) == (8, files[:4])
        assert await place.steps.discard(job, files, Reclaimer(place.objects)) == 6
        await place.compactor.run_jobs(fixed)
        kinds = [entry.kind for entry in await place.index(topic)]
        assert kinds == [PARQUET] * 4 + [WAL] * 6
        again = await created(place, topic, start=8, end=20)
        await place.steps.give_up(again)
        assert len(await read_all(engine, topic.name)) == 10
