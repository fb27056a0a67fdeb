"""Jobs step by step: who wins, what a repeat does, and what is left when one is cut off."""

from contextlib import AbstractAsyncContextManager
from random import Random

import pytest

from headwater.engine import Topic
from headwater.errors import KafkaError, StoreUnavailable
from headwater.log import transactions
from headwater.log.engine import LogEngine
from headwater.log.formats import INLINE, PARQUET, SEGMENT, WAL, IndexEntry, Layout, Release
from headwater.log.gc import GarbageCollector
from headwater.log.index import entries_between
from headwater.log.job_steps import JobSteps
from headwater.log.jobs import (
    CREATED,
    ICEBERG_COMMITTED,
    INDEX_SWAPPED,
    PARQUET_WRITTEN,
    DataFile,
    Job,
    Manifest,
    ManifestTooLarge,
    check_manifest,
    data_file_key,
    fit_manifest,
    job_of_file,
)
from headwater.log.merge import mergeable
from headwater.log.pins import Pins
from headwater.log.releases import TableReleases
from headwater.log.settings import LogSettings
from headwater.log.swap import rearrange
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits, prefix_end
from headwater.meta.values import decode
from headwater.objects.memory import MemoryObjects
from headwater.wire.batch import split_batches
from headwater.wire.columnar import decode as columns
from headwater.wire.records import Record, encode_batch
from tests.log.compaction import Compactor, read_range
from tests.log.harness import read_all, running_engine
from tests.log.interrupted import Crash, InterruptedObjects, InterruptedStore, Interruption

GRACE = 1_000
SETTINGS = LogSettings(
    inline_bytes=0, object_bytes=1, gc_grace_ms=GRACE, orphan_grace_ms=GRACE, merge_fan_in=2
)


class ClockByHand:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now


class Place:
    """Stores with one stream of ten small entries on them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ClockByHand()
        self.meta = MemoryStore(limits)
        self.objects = MemoryObjects(clock=self.clock)
        self.collector = GarbageCollector(self.meta, self.objects, SETTINGS, self.clock)
        self.steps = JobSteps(self.meta, self.clock)
        self.releases = TableReleases(self.meta, self.clock)
        self.compactor = Compactor(self.meta, self.objects, self.clock, Random(7))

    async def fill(self, engine: LogEngine, name: str = "t", entries: int = 10) -> Topic:
        topic = await engine.topics.create(name, 1, {"retention.ms": "-1"})
        for number in range(entries):
            records = [Record(n, 1000 * number + n, None, b"v%d" % number) for n in range(2)]
            await engine.append(topic, 0, split_batches(encode_batch(records)))
        return topic

    def engine(self, broker_id: int = 1) -> AbstractAsyncContextManager[LogEngine]:
        return running_engine(
            self.meta,
            self.objects,
            broker_id=broker_id,
            settings=SETTINGS,
            clock=self.clock,
            housekeeping=False,
        )

    async def written(self, engine: LogEngine, topic: Topic, job: Job) -> DataFile:
        batches = await read_range(engine, topic, 0, job.start, job.end)
        return await self.compactor.write(job, batches, job.start, job.end)

    async def index(self, topic: Topic) -> list[IndexEntry]:
        found = entries_between(self.meta, topic.streams[0], 0, 1 << 40)
        return [entry async for entry in found]

    async def there(self, prefix: str) -> list[str]:
        return [entry.key for entry in (await self.meta.scan(prefix, prefix_end(prefix))).entries]

    async def files(self) -> set[str]:
        return {info.key async for info in self.objects.list("tables/")}

    async def collect(self) -> None:
        self.clock.now += GRACE + 1
        await self.collector.collect_released()
        await self.collector.collect_lost_files()

    async def let_all_go(self) -> None:
        async for noted in self.releases.waiting():
            await self.releases.let_go(noted, noted.files)


async def created(place: Place, topic: Topic, **bounds: int) -> Job:
    job = await place.compactor.create(topic, **bounds)
    assert job is not None
    assert job.state == CREATED
    return job


async def test_every_step_may_be_repeated() -> None:
    place = Place()
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
        assert await place.steps.discard(job, [file], place.objects) == 0
        assert await place.files() == {file.key}
        entries = await place.index(topic)
        assert [(entry.start, entry.end) for entry in entries] == [
            (0, 2), (2, 4), (4, 12), (12, 14), (14, 16), (16, 18), (18, 20),
        ]  # fmt: skip


async def test_steps_out_of_order_are_refused() -> None:
    place = Place()
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
    place = Place()
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
        await place.compactor.carry_through(fixed)
        assert await engine.sizes(topic.streams) == sizes
        after = {entry.end: entry for entry in await place.index(topic)}
        assert after[12].size == before[5].size
        assert before[3].size < after[9].size < before[4].size
        assert after[12].max_timestamp == before[5].max_timestamp
        assert after[9].created_ms == before[4].created_ms
    async with place.engine(2) as fresh:
        assert len(await read_all_values(fresh, topic)) == 20


async def read_all_values(engine: LogEngine, topic: Topic) -> list[bytes | None]:
    bounds = await engine.offsets(topic, 0)
    batches = await read_range(engine, topic, 0, bounds.log_start, bounds.high_watermark)
    values: list[bytes | None] = columns(batches, 0).column("value").to_pylist()
    return values


async def test_one_manifest_wins_and_the_rival_deletes_only_its_own() -> None:
    place = Place()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic)
        mine = await place.written(engine, topic, job)
        other = await place.written(engine, topic, job)
        assert await place.steps.discard(job, [mine, other], place.objects) == 0
        await place.steps.fix(job, [other])
        lost = await place.steps.fix(job, [mine])
        assert lost is not None
        assert lost.files == [other]
        assert await place.steps.discard(job, [mine, other], place.objects) == 1
        assert await place.files() == {other.key}


async def test_a_stale_plan_opens_no_job() -> None:
    place = Place()
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
    place = Place()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        stream = topic.streams[0]
        planned = await engine._merger._plan(stream)
        await created(place, topic, start=4, end=12)
        # A merge that was planned before the job loses.
        assert await engine._merger._merge_group([(stream, *planned)]) == []
        while await engine._merger.merge([stream]):
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


async def test_what_is_set_aside_stays_as_it_is_and_says_so() -> None:
    place = Place()
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
        await place.compactor.carry_through(fixed)
        entries = await place.index(topic)
        assert [(entry.start, entry.kind, entry.set_aside) for entry in entries] == [
            (0, PARQUET, ""), (6, WAL, "bad"), (8, PARQUET, ""),
        ]  # fmt: skip
    async with place.engine(2) as fresh:
        assert len(await read_all_values(fresh, topic)) == 20
        await place.collect()
        assert len(await read_all_values(fresh, topic)) == 20


async def test_files_below_log_start_are_not_put_in() -> None:
    place = Place()
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
        await place.compactor.carry_through(fixed)
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
    place = Place()
    async with place.engine() as engine:
        topic = await place.fill(engine)
        job = await created(place, topic, start=0, end=12)
        file = await place.written(engine, topic, job)
        fixed = await place.steps.fix(job, [file])
        assert fixed is not None
        await engine.delete_records(topic, 0, 14)
        await place.compactor.carry_through(fixed)
        assert [entry.start for entry in await place.index(topic)] == [14, 16, 18]
        await place.let_all_go()
        await place.collect()
        assert await place.files() == set()


@pytest.mark.parametrize("state", [CREATED, PARQUET_WRITTEN, ICEBERG_COMMITTED, INDEX_SWAPPED])
async def test_deleting_a_topic_ends_its_job(state: int) -> None:
    place = Place()
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


async def test_files_are_let_go_one_by_one_and_once() -> None:
    place = Place()
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
    place = Place()
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
    place = Place()
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


def test_a_file_says_which_job_wrote_it() -> None:
    job = Job(
        id="0a1b", kind="compact", stream=1, topic="t", topic_id="7f-3", partition=4,
        start=5, end=9, created_ms=0,
    )  # fmt: skip
    key = data_file_key(job, 5, 9, "try1")
    assert key == f"tables/7f-3/data/4/{5:020d}-{9:020d}-0a1b-try1.parquet"
    assert job_of_file(key) == "0a1b"
    assert job_of_file(key.replace(".parquet", ".txt")) is None
    assert job_of_file(data_file_key(job, 5, 9, "x", kind=3)) == "0a1b"


@pytest.mark.parametrize(
    "parts", [[], [(0, 5)], [(0, 5), (6, 10)], [(0, 6), (5, 10)], [(0, 10), (10, 10)], [(-1, 10)]]
)
def test_a_manifest_must_make_up_its_jobs_range(parts: list[tuple[int, int]]) -> None:
    job = Job(
        id="j", kind="compact", stream=1, topic="t", topic_id="i", partition=0, start=0, end=10,
        created_ms=0,
    )  # fmt: skip
    files = [
        DataFile(
            key="k", store="s", size=1, rows=1, start=start, end=end, min_timestamp=0,
            max_timestamp=0,
        )
        for start, end in parts
    ]  # fmt: skip
    with pytest.raises(ValueError, match="job j"):
        check_manifest(job, files, [])


def part(start: int, end: int, kind: int = PARQUET) -> DataFile:
    return DataFile(
        key=f"{kind}-{start}", store="s", size=1, rows=1, start=start, end=end, min_timestamp=0,
        max_timestamp=0, kind=kind,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("operations", "end"),
    [(None, 12), (15, 12), (14, 8), (12, 8), (11, 6), (10, 6), (9, 4), (8, 4)],
)
def test_a_manifest_ends_where_a_transaction_is_full(operations: int | None, end: int) -> None:
    whole = Manifest(
        [part(0, 4, SEGMENT), part(6, 8, SEGMENT), part(8, 12, SEGMENT)],
        [(4, 6, "bad")],
        [part(0, 4), part(8, 12)],
    )
    fitting = fit_manifest(whole, operations)
    assert fitting.end == end
    assert [file.end for file in fitting.files] == [at for at in (4, 8, 12) if at <= end]
    assert len(fitting.set_aside) == (end >= 6)
    assert len(fitting.copies) == 1 + (end == 12)


def test_a_manifest_whose_first_part_is_too_much_is_refused() -> None:
    with pytest.raises(ManifestTooLarge, match=r"makes 8 writes.*takes 7"):
        fit_manifest(Manifest([part(0, 4, SEGMENT)], (), [part(0, 4)]), 7)


async def test_a_job_ends_early_where_the_store_takes_no_more() -> None:
    place = Place(Limits(operations=13))
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
        assert await place.steps.discard(job, files, place.objects) == 6
        await place.compactor.carry_through(fixed)
        kinds = [entry.kind for entry in await place.index(topic)]
        assert kinds == [PARQUET] * 4 + [WAL] * 6
        again = await created(place, topic, start=8, end=20)
        await place.steps.give_up(again)
        assert len(await read_all(engine, topic.name)) == 10


def test_an_index_that_does_not_fit_a_job_stops_the_swap() -> None:
    job = Job(
        id="j", kind="compact", stream=1, topic="t", topic_id="i", partition=0, start=2, end=10,
        created_ms=0,
        files=[
            DataFile(
                key="k", store="s", size=1, rows=1, start=2, end=10, min_timestamp=0,
                max_timestamp=0,
            )
        ],
    )  # fmt: skip
    entry = IndexEntry(start=0, end=10, kind=WAL, length=1, size=1, max_timestamp=0, created_ms=0)
    with pytest.raises(KafkaError, match="reaches out"):
        rearrange(job, [entry], 0)
    with pytest.raises(KafkaError, match="lacks"):
        rearrange(job, [], 0)


async def attempt(place: Place, topic: Topic, compactor: Compactor) -> None:
    """One driver's try at the stream's job, from wherever it stands."""
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
            await steps.discard(job, [file], place.objects)
        if fixed is None:
            return
        job = fixed
    await compactor.carry_through(job)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Crash("here"), StoreUnavailable("away")])
async def test_a_driver_cut_off_between_any_two_calls_leaves_nothing_behind(
    error: Exception, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PAUSES", (0.0, 0.0))
    for call in range(60):
        place = Place()
        async with place.engine() as engine:
            topic = await place.fill(engine)
        interruption = Interruption()
        compactor = Compactor(
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
    place = Place()
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
