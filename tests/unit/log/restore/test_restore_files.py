"""What compaction and merges wrote after a snapshot comes back at its offsets, and once."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import ModuleType

import pytest

from headwater.engine import Topic
from headwater.errors import ConfigurationError
from headwater.extras import install_command
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import HOLE, INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.read.index import entries_between
from headwater.log.reclaim.releases import TableReleases
from headwater.log.restore import surviving_files
from headwater.log.restore.restore import restore, snapshots_in
from headwater.log.settings import LogSettings
from headwater.wire.batches.batch import Batch, split_batches
from headwater.wire.batches.records import Record, encode_batch
from tests.support.log.compaction import StepwiseCompactor, follow, read_range
from tests.support.log.harness import append
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace
from tests.unit.simulation.test_compaction_schedules import records_of

INLINE_ONLY = replace(OBJECTS_ONLY, inline_bytes=1 << 20)


def batch(value: str, count: int = 1, **producer: int) -> Batch:
    records = [Record(n, 1000 + n, None, f"{value}.{n}".encode()) for n in range(count)]
    (made,) = split_batches(encode_batch(records, **producer))
    return made


async def log_of(engine: LogEngine, name: str = "t") -> dict[int, bytes]:
    """Every record by its offset."""
    topic = await engine.topics.find(name)
    bounds = await engine.offsets(topic, 0)
    offset, found = bounds.log_start, dict[int, bytes]()
    while offset < bounds.high_watermark:
        answer = engine.read(topic, 0, offset, 3000, committed=True)
        read = answer if not hasattr(answer, "__await__") else await answer
        end, values = records_of(read, offset)
        assert end > offset
        found.update(values)
        offset = end
    return found


async def index_of(place: RestorePlace, topic: Topic) -> list[IndexEntry]:
    return [one async for one in entries_between(place.meta, topic.streams[0], 0, 1 << 40)]


def compactor(place: RestorePlace, seed: int = 1) -> StepwiseCompactor:
    return StepwiseCompactor(place.meta, place.objects, place.clock, Random(seed))


async def add(engine: LogEngine, *values: str, count: int = 1) -> None:
    for value in values:
        await append(engine, "t", [batch(value, count)])


@pytest.mark.parametrize("settings", [OBJECTS_ONLY, INLINE_ONLY], ids=["objects", "inline"])
async def test_a_file_that_is_newer_than_the_snapshot_is_put_back_at_its_offsets(
    settings: LogSettings,
) -> None:
    place = RestorePlace()
    async with place.engine(settings=settings) as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a", "b", count=5)
        await place.snapshot()
        await add(engine, "c", "d", count=5)
        await compactor(place).compact(engine, topic)
        before = await log_of(engine)
    async with place.engine(broker_id=2) as engine:
        await add(engine, "e", count=5)
        before = await log_of(engine)
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.files, done.found.lost) == (15, 1, 0)
    assert not done.found.unplaced
    assert [entry.kind for entry in await index_of(place, topic)] == [PARQUET, WAL]
    async with place.engine() as engine:
        assert await log_of(engine) == before
        assert await engine.end_of_epoch(topic, 0, 0) == 20


async def test_a_restore_that_cannot_read_files_of_tables_names_what_adds_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> ModuleType:
        raise ImportError("No module named 'pyarrow'")

    place = RestorePlace()
    async with place.engine(settings=OBJECTS_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a", count=5)
        await place.snapshot()
        await add(engine, "b", count=5)
        await compactor(place).compact(engine, topic)
    place.lose_metadata()
    monkeypatch.setattr(surviving_files, "_import_survey", missing)
    with pytest.raises(ConfigurationError) as refused:
        await place.restore()
    assert str(refused.value).endswith(f"{install_command('table')} adds it")


async def test_what_a_merge_took_from_the_metadata_store_is_put_back_at_its_offsets() -> None:
    place = RestorePlace(whole=True)
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a", "b")
        await place.snapshot()
        await add(engine, "c", "d", "e")
        await engine._current.merger.merge(topic.streams)
        before = await log_of(engine)
        await add(engine, "f")  # inline, and so lost
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.lost) == (3, 0)
    async with place.engine() as engine:
        assert await log_of(engine) == before
        await place.collector().collect_orphans(())
        await place.collector().collect_released()
    async with place.engine(broker_id=2) as engine:
        assert await log_of(engine) == before


async def test_records_that_are_lost_between_others_leave_a_hole_that_readers_pass() -> None:
    place = RestorePlace(whole=True)
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a")
        await place.snapshot()
        await add(engine, "lost", count=3)
        await add(engine, "c", "d")
        before = await log_of(engine)
        await _merge_run(engine, topic, (await index_of(place, topic))[2:])
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.lost) == (2, 3)
    assert [entry.kind for entry in await index_of(place, topic)] == [INLINE, HOLE, WAL]
    async with place.engine() as engine:
        left = {offset: value for offset, value in before.items() if not 1 <= offset < 4}
        assert await log_of(engine) == left
        assert await engine.end_of_epoch(topic, 0, 0) == 1, "consumers go back to what is lost"
        assert await append(engine, "t", [batch("new")]) == 6
        await engine._current.merger.merge(topic.streams)
        assert await log_of(engine) == {**left, 6: b"new.0"}


async def _merge_run(engine: LogEngine, topic: Topic, run: Sequence[IndexEntry]) -> None:
    """Merge these entries, whatever a plan would take."""
    from headwater.log.merge.plans import MergePlan

    merger = engine._current.merger
    stream = topic.streams[0]
    layout = (await merger._plan(stream)).generation
    planned = MergePlan(stream, layout, run)
    read = await merger._read([planned])
    assert await merger._merge_group(read) == [stream]


@pytest.mark.parametrize("also_merged", [False, True])
async def test_a_file_behind_records_that_were_deleted_is_put_back(also_merged: bool) -> None:
    """What was never compacted and was deleted leaves a gap before it."""
    place = RestorePlace(whole=True)
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.snapshot()
        await add(engine, "a", "b", count=3)
        if also_merged:
            await engine._current.merger.merge(topic.streams)
        await engine.delete_records(topic, 0, 6)
        await add(engine, "c", "d", count=5)
        await compactor(place).compact(engine, topic)
        before = await log_of(engine)
    place.lose_metadata()
    done = await place.restore()
    entries = await index_of(place, topic)
    if also_merged:
        # The table would never get the merged records, so the file is kept and reported.
        assert [entry.kind for entry in entries] == [WAL]
        assert done.adopted == 1
        return
    assert [(entry.kind, entry.start, entry.end) for entry in entries] == [
        (HOLE, 0, 6),
        (PARQUET, 6, 16),
    ]
    async with place.engine() as engine:
        assert await log_of(engine) == before
        assert await append(engine, "t", [batch("new")]) == 16


async def test_a_chunk_takes_the_gap_between_what_its_broker_wrote_before_and_after() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a")
        await place.snapshot()
        await add(engine, "b", "c", "large", "d", "e")
        before = await log_of(engine)
        entries = await index_of(place, topic)
        await _merge_run(engine, topic, entries[1:3])
        await _merge_run(engine, topic, (await index_of(place, topic))[3:])
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.records, done.found.lost) == (5, 0)
    async with place.engine() as engine:
        assert await log_of(engine) == before


async def test_a_file_without_a_note_of_its_chunks_is_kept_and_reported() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a")
        await place.snapshot()
        await add(engine, "b")
        before = await log_of(engine)
    key = f"tables/{topic.id}/data/0/{1:020d}-{3:020d}-0a1b-c0de.parquet"
    await place.objects.put(key, [b"PAR1 this is no Parquet file"])
    place.lose_metadata()
    done = await place.restore()
    assert (done.found.unplaced, done.adopted) == ([key], 1)
    async with place.engine() as engine:
        assert await log_of(engine) == before
        await place.collector().collect_lost_files()
        await place.collector().collect_released()
        releases = TableReleases(place.meta, place.clock)
        await releases.note(0, [key])  # as for the tables of topics that are gone
        assert not [noted async for noted in releases.waiting()]
        assert [info.key async for info in place.objects.list(key)] == [key]


async def test_a_file_of_a_later_epoch_is_kept_by_a_restore_of_an_older_snapshot() -> None:
    """Its offsets hold other records in that snapshot."""
    place = RestorePlace(whole=True)
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.snapshot()
        (empty,) = await snapshots_in(place.objects)
        await add(engine, "lost", "lost too")
        await place.snapshot()
        (_, full) = await snapshots_in(place.objects)
    place.lose_metadata()
    await restore(place.meta, place.objects, place.clock, snapshot=empty)
    async with place.engine(settings=INLINE_ONLY) as engine:
        await add(engine, "a", "b")
        await compactor(place).compact(engine, topic)
    (file,) = [info.key async for info in place.objects.list("tables/")]
    place.lose_metadata()
    done = await restore(place.meta, place.objects, place.clock, snapshot=full)
    assert done.found.unplaced == [file]
    async with place.engine() as engine:
        assert await log_of(engine) == {0: b"lost.0", 1: b"lost too.0"}
        await place.collector().collect_lost_files()
        await place.collector().collect_released()
    assert [info.key async for info in place.objects.list("tables/")] == [file]


async def test_objects_with_records_of_unknown_topics_are_kept_and_reported() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        await place.snapshot()
        await engine.topics.create("lost", 1, {})
        await append(engine, "lost", [batch("x")])
    wal = [info.key async for info in place.objects.list("wal/")]
    place.lose_metadata()
    done = await place.restore()
    assert done.found.unplaced == wal
    async with place.engine(broker_id=2) as engine:
        await place.collector().collect_orphans([engine.incarnation])
        await place.collector().collect_released()
        assert [info.key async for info in place.objects.list(wal[0])] == wal


async def test_a_merged_object_without_offsets_is_kept_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headwater.log.formats import wal_object
    from headwater.log.merge import merger

    monkeypatch.setattr(
        merger,
        "encode_section",
        lambda chunks, created_ms, _starts: wal_object.encode_section(chunks, created_ms),
    )
    place = RestorePlace(whole=True)
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await place.snapshot()
        await add(engine, "a", "b")
        await engine._current.merger.merge(topic.streams)
    (merged,) = [info.key async for info in place.objects.list("wal/")]
    place.lose_metadata()
    assert (await place.restore()).found.unplaced == [merged]
    async with place.engine(broker_id=2) as engine:
        await place.collector().collect_orphans([engine.incarnation])
        assert [info.key async for info in place.objects.list(merged)] == [merged]


async def test_an_idempotent_producers_retry_is_found_in_a_file() -> None:
    place = RestorePlace()
    batches = [
        batch(f"{n}", 2, producer_id=7, producer_epoch=0, base_sequence=2 * n) for n in range(3)
    ]
    async with place.engine(settings=INLINE_ONLY) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", batches[:1])
        await place.snapshot()
        await append(engine, "t", batches[1:])
        await compactor(place).compact(engine, topic)
        before = await log_of(engine)
    place.lose_metadata()
    await place.restore()
    async with place.engine() as engine:
        assert await append(engine, "t", batches[2:]) == 4
        assert await log_of(engine) == before


@pytest.mark.parametrize("rounds", [1, 3])
async def test_nothing_is_placed_twice_by_one_restore_after_another(rounds: int) -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await add(engine, "a")
        await place.snapshot()
        await add(engine, "b", "b", "c")
        await compactor(place).compact(engine, topic, end=2)
        await add(engine, "c", "d")
        await engine._current.merger.merge(topic.streams)
        before = await log_of(engine)
    for _ in range(rounds):
        place.lose_metadata()
        await place.restore()
        async with place.engine() as engine:
            assert await log_of(engine) == before
            await place.collector().collect_orphans([engine.incarnation])
            await place.collector().collect_lost_files()
            await place.collector().collect_released()
            assert await log_of(engine) == before


async def test_a_segment_is_put_back_beside_the_chunks_that_it_holds() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {"headwater.compact-to": "segment"})
        await add(engine, "a")
        await place.snapshot()
        await add(engine, "b", "b", count=3)
        own = compactor(place)
        job = await own.create(topic)
        assert job is not None
        batches = await read_range(engine, topic, 0, job.start, job.end)
        fixed = await own.steps.fix(job, [await own.write_segment(job, batches, 2)])
        assert fixed is not None
        await own.run_jobs(fixed)
        follow(engine, topic)
        await add(engine, "b", count=3)
        before = await log_of(engine)
    place.lose_metadata()
    assert not (await place.restore()).found.unplaced
    assert [entry.kind for entry in await index_of(place, topic)] == [SEGMENT, WAL]
    async with place.engine() as engine:
        assert await log_of(engine) == before
