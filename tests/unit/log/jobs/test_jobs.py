"""Jobs step by step: who wins, what a repeat does, and what is left when one is cut off."""

from random import Random

import pytest

from headwater.engine import Topic
from headwater.errors import KafkaError, StoreUnavailable
from headwater.log.formats.metadata_values import INLINE, PARQUET, WAL, IndexEntry, Layout, Release
from headwater.log.jobs.jobs import (
    CREATED,
    ICEBERG_COMMITTED,
    INDEX_SWAPPED,
    PARQUET_WRITTEN,
    Job,
)
from headwater.log.merge.rank import mergeable
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.meta import keys, transactions
from headwater.meta.values import decode
from headwater.retry import Backoff
from tests.support.log.compaction import StepwiseCompactor, read_range
from tests.support.log.harness import read_all
from tests.support.log.interrupted import Crash, InterruptedObjects, InterruptedStore, Interruption
from tests.support.log.job_place import JobPlace, created, read_all_values


async def test_every_step_may_be_repeated() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic, start=4, end=12)
        assert await place.steps.create(job, 99) == job
        file = await place.written(engine, topic, job)
        for _ in range(2):
            fixed = await place.steps.fix(job, [file])
            assert fixed is not None
            assert (fixed.state, fixed.files) == (PARQUET_WRITTEN, [file])
            assert await place.steps.give_up(job) == fixed
        for _ in range(2):
            committed = await place.steps.mark_committed(job)
            assert committed is not None
            assert committed.state == ICEBERG_COMMITTED
        for _ in range(2):
            swapped = await place.steps.swap(job)
            assert swapped is not None
            assert swapped.state == INDEX_SWAPPED
        for _ in range(2):
            await place.steps.finish(job)
        assert await place.steps.open_jobs() == []
        assert await place.steps.fix(job, [file]) is None
        assert await place.steps.mark_committed(job) is None
        assert await place.steps.swap(job) is None
        assert await place.steps.give_up(job) is None
        assert await place.steps.discard(job, [file], Reclaimer(place.objects)) == 0
        assert await place.files() == {file.key}
        entries = await place.index(topic)
        assert [(entry.start, entry.end) for entry in entries] == [
            (0, 2), (2, 4), (4, 12), (12, 14), (14, 16), (16, 18), (18, 20),
        ]  # fmt: skip


async def test_steps_out_of_order_are_refused() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        for step in (place.steps.mark_committed, place.steps.swap, place.steps.finish):
            with pytest.raises(ValueError, match=job.id):
                await step(job)
        file = await place.written(engine, topic, job)
        await place.steps.fix(job, [file])
        for step in (place.steps.swap, place.steps.finish):
            with pytest.raises(ValueError, match=job.id):
                await step(job)


async def test_a_swap_leaves_sizes_times_and_bounds_as_they_were() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        before = await place.index(topic)
        job = await created(place, topic, start=4, end=12)
        batches = await read_range(engine, topic, 0, 4, 12)
        # The cut is in the middle of an entry.
        first = await place.compactor.write(job, batches, 4, 9, dropped=range(9, 12))
        second = await place.compactor.write(job, batches, 9, 12, dropped=range(9))
        fixed = await place.steps.fix(job, [first, second])
        assert fixed is not None
        sizes = await engine.sizes(topic.streams)
        await place.compactor.run_jobs(fixed)
        assert await engine.sizes(topic.streams) == sizes
        after = {entry.end: entry for entry in await place.index(topic)}
        assert after[12].size == before[5].size
        assert before[3].size < after[9].size < before[4].size
        assert after[12].max_timestamp == before[5].max_timestamp
        assert after[9].created_ms == before[4].created_ms
    async with place.engine(2) as fresh:
        assert len(await read_all_values(fresh, topic)) == 20


async def test_one_manifest_wins_and_the_rival_deletes_only_its_own() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        mine = await place.written(engine, topic, job)
        other = await place.written(engine, topic, job)
        assert await place.steps.discard(job, [mine, other], Reclaimer(place.objects)) == 0
        await place.steps.fix(job, [other])
        lost = await place.steps.fix(job, [mine])
        assert lost is not None
        assert lost.files == [other]
        assert await place.steps.discard(job, [mine, other], Reclaimer(place.objects)) == 1
        assert await place.files() == {other.key}


async def test_a_stale_plan_opens_no_job() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        stream = topic.streams[0]
        plan = Job(
            id="a", kind="compact", stream=stream, topic="t", topic_id=str(topic.id),
            partition=0, start=0, end=20, created_ms=0,
        )  # fmt: skip
        generation = await place.steps.generation(stream)
        above = Job(
            id="b", kind="compact", stream=stream, topic="t", topic_id=str(topic.id),
            partition=0, start=0, end=21, created_ms=0,
        )  # fmt: skip
        assert await place.steps.create(above, generation) is None
        await engine.delete_records(topic, 0, 3)
        assert await place.steps.create(plan, generation) is None
        generation = await place.steps.generation(stream)
        await engine.topics.delete("t")
        assert await place.steps.create(plan, generation) is None
        assert await place.there(keys.jobs(0)) == []


async def test_merges_keep_out_of_an_open_job() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        stream = topic.streams[0]
        planned = await engine._current.merger._plan(stream)
        await created(place, topic, start=4, end=12)
        # A merge that was planned before the job loses.
        assert planned.run
        before = await place.index(topic)
        read = await engine._current.merger._read([planned])
        assert await engine._current.merger._merge_group(read) == []
        assert await place.index(topic) == before
        while await engine._current.merger.merge([stream]):
            pass
        ends = [entry.end for entry in await place.index(topic)]
        assert [end for end in ends if 4 <= end <= 12] == [4, 6, 8, 10, 12]
        assert ends[0] == 4
        assert ends[-1] == 20
        assert len(ends) < 9


def test_merges_leave_files_and_what_was_set_aside_alone() -> None:
    def entry(start: int, kind: int = WAL, aside: str = "") -> IndexEntry:
        return IndexEntry(
            start=start, end=start + 1, kind=kind, length=1, size=1, max_timestamp=0,
            created_ms=0, set_aside=aside,
        )  # fmt: skip

    entries = [entry(0), entry(1, PARQUET), entry(2, INLINE), entry(3, WAL, "bad"), entry(4, 3)]
    assert [one.start for one in mergeable(entries, None)] == [0, 2]


async def attempt(place: JobPlace, topic: Topic, compactor: StepwiseCompactor) -> None:
    """One driver's attempt to finish the stream's job from its present state."""
    steps = compactor.steps
    job = await steps.get(topic.streams[0])
    if job is None and (await place.index(topic))[0].kind != PARQUET:
        job = await compactor.create(topic, end=12)
    if job is None:
        return
    if job.state == CREATED:
        async with place.engine(5) as reader:
            batches = await read_range(reader, topic, 0, job.start, job.end)
        file = await compactor.write(job, batches, job.start, job.end)
        fixed = await steps.fix(job, [file])
        if fixed is None or fixed.files != [file]:
            await steps.discard(job, [file], Reclaimer(place.objects))
        if fixed is None:
            return
        job = fixed
    await compactor.run_jobs(job)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Crash("here"), StoreUnavailable("away")])
async def test_a_driver_cut_off_between_any_two_calls_leaves_nothing_behind(
    error: Exception, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "BACKOFF", Backoff(first=0, longest=0, attempts=3))
    for call in range(60):
        place = JobPlace()
        async with place.engine() as engine:
            topic = await place.fill(engine)
        interruption = Interruption()
        compactor = StepwiseCompactor(
            InterruptedStore(place.meta, interruption),
            InterruptedObjects(place.objects, interruption),
            place.clock,
            Random(call),
        )
        numbers = range(call, call + 1) if isinstance(error, Crash) else range(call, call + 20)
        interruption.strike(numbers, error, after=after)
        try:
            await attempt(place, topic, compactor)
        except (Crash, KafkaError, StoreUnavailable):
            interruption.stop()
            await attempt(place, topic, place.compactor)
        else:
            if call >= interruption.calls:
                break
        assert await place.steps.open_jobs() == []
        (file, *_) = await place.index(topic)
        assert file.kind == PARQUET
        await place.collect()
        await place.collect()
        assert await place.files() == {file.key}
        async with place.engine(2) as fresh:
            assert len(await read_all_values(fresh, topic)) == 20
    else:
        raise AssertionError("the driver makes more calls than were cut off")


async def test_layout_and_release_say_whose_they_are() -> None:
    place = JobPlace()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        await place.compactor.compact(engine, topic, end=12)
        (key,) = await place.there(keys.releases(0))
        stored = await place.meta.get(key)
        assert stored is not None
        released = decode(Release, stored.value)
        assert (released.stream, released.end) == (topic.streams[0], 12)
        laid = await place.meta.get(keys.layout(0, topic.streams[0]))
        assert laid is not None
        assert decode(Layout, laid.value).generation == 2
        assert await read_all(engine, "t")
