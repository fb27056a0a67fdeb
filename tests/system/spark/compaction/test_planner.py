"""What the planner picks, for any index."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.formats.metadata_values import INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.jobs.jobs import ICEBERG_COMMITTED, DataFile, Job, Manifest, fix_manifest
from headwater.log.jobs.swap import swap_files
from headwater.meta import keys
from headwater.meta.limits import check_writes
from headwater.meta.store import Entry, Limits
from headwater.meta.values import encode
from headwater.pipeline.compaction.planner import (
    MAX_ENTRIES,
    MAX_FILES,
    MAX_INLINE_BYTES,
    Rules,
    StreamView,
    cut,
    file_ranges,
    lowest_run,
    plan_range,
)

NOW = 1_000_000
EVERYTHING = Rules(file_bytes=1000, max_age_ms=0, max_entries=1)
PATIENT = Rules(file_bytes=1000, max_age_ms=500, max_entries=10)


def entry(start: int, end: int, *, kind: int = WAL, length: int = 100, age: int = 0) -> IndexEntry:
    return IndexEntry(
        start=start,
        end=end,
        kind=kind,
        length=length,
        size=0,
        max_timestamp=0,
        created_ms=NOW - age,
    )


@st.composite
def views(draw: st.DrawFn) -> StreamView:
    entries = []
    offset = draw(st.integers(0, 5))
    age = draw(st.integers(0, 2000))
    for _ in range(draw(st.integers(0, 30))):
        end = offset + draw(st.integers(1, 10))
        made = entry(
            offset,
            end,
            kind=draw(st.sampled_from([INLINE, WAL, WAL, WAL, PARQUET, SEGMENT])),
            length=draw(st.integers(1, 3000)),
            age=age,
        )
        if draw(st.integers(0, 9)) == 0:
            made.set_aside = "damaged"
        entries.append(made)
        offset = end
        age = draw(st.integers(0, age))
    log_start = draw(st.integers(0, offset))
    return StreamView(log_start, draw(st.integers(log_start, offset)), entries)


rules = st.builds(
    Rules,
    file_bytes=st.integers(1, 5000),
    max_age_ms=st.integers(0, 2000),
    max_entries=st.integers(1, 20),
)


@given(views(), rules)
def test_a_plan_is_whole_stable_chunks_and_nothing_below_it_is_still_to_come(
    view: StreamView, chosen: Rules
) -> None:
    plan = plan_range(view, chosen, NOW)
    open_chunks = [
        each
        for each in view.entries
        if each.kind in (INLINE, WAL) and not each.set_aside and each.end > view.log_start
    ]
    if plan is None:
        return
    inside = [each for each in view.entries if plan.start <= each.start < plan.end]
    assert [each for each in inside if each in open_chunks] == inside
    assert (inside[0].start, inside[-1].end) == (plan.start, plan.end)
    assert all(left.end == right.start for left, right in itertools.pairwise(inside))
    assert plan.end <= view.last_stable
    assert min(each.start for each in open_chunks) == plan.start
    assert plan.size == sum(each.length for each in inside)


@given(views())
def test_everything_stable_is_taken_in_the_end(view: StreamView) -> None:
    entries = list(view.entries)
    for _ in range(len(entries) + 1):
        plan = plan_range(StreamView(view.log_start, view.last_stable, entries), EVERYTHING, NOW)
        if plan is None:
            break
        for each in entries:
            if plan.start <= each.start < plan.end:
                each.kind = PARQUET
    left = [
        each
        for each in entries
        if each.kind in (INLINE, WAL) and not each.set_aside and each.end > view.log_start
    ]
    assert all(each.end > view.last_stable for each in left)


@given(views(), st.integers(1, 5000), st.data())
def test_files_make_up_the_range_of_a_job_whatever_was_trimmed(
    view: StreamView, file_bytes: int, data: st.DataObject
) -> None:
    run = lowest_run(StreamView(0, 10**9, view.entries))
    if not run:
        return
    left = run[data.draw(st.integers(0, len(run) - 1)) :]
    files = file_ranges(run[0].start, run[-1].end, left, file_bytes)
    assert files[0].start == run[0].start
    assert files[-1].end == run[-1].end
    assert all(one.end == other.start for one, other in itertools.pairwise(files))
    assert [each for file in files for each in file.entries] == left
    for file in files:
        assert all(file.start <= each.start and each.end <= file.end for each in file.entries)


def test_a_job_whose_range_was_deleted_has_no_files() -> None:
    assert file_ranges(0, 10, [], 1000) == []


def test_small_young_entries_wait() -> None:
    young = [entry(at, at + 1, age=499) for at in range(5)]
    assert plan_range(StreamView(0, 5, young), PATIENT, NOW) is None
    assert plan_range(StreamView(0, 5, young), EVERYTHING, NOW) is not None


def test_age_number_and_size_each_are_reason_enough() -> None:
    for entries in (
        [entry(0, 1, age=500)],
        [entry(at, at + 1, length=1) for at in range(10)],
        [entry(0, 1, length=750)],
    ):
        plan = plan_range(StreamView(0, 10, entries), PATIENT, NOW)
        assert plan is not None
        assert plan.end == entries[-1].end


def test_full_files_go_and_a_young_rest_waits() -> None:
    entries = [entry(at, at + 1, length=250) for at in range(9)]
    plan = plan_range(StreamView(0, 9, entries), PATIENT, NOW)
    assert plan is not None
    assert (plan.start, plan.end) == (0, 8)


def test_a_job_has_few_files_and_little_inline_data() -> None:
    many = [entry(at, at + 1, length=1000) for at in range(MAX_FILES * 2)]
    assert len(cut(many, 1000)) == MAX_FILES
    plan = plan_range(StreamView(0, 10**9, many), EVERYTHING, NOW)
    assert plan is not None
    assert plan.end == MAX_FILES
    inline = [entry(at, at + 1, kind=INLINE, length=MAX_INLINE_BYTES // 4) for at in range(8)]
    plan = plan_range(StreamView(0, 10**9, inline), EVERYTHING, NOW)
    assert plan is not None
    assert plan.end == 4
    tiny = [entry(at, at + 1, length=1) for at in range(MAX_ENTRIES + 8)]
    plan = plan_range(StreamView(0, 10**9, tiny), EVERYTHING, NOW)
    assert plan is not None
    assert plan.end == MAX_ENTRIES


def test_a_job_of_as_many_files_as_are_planned_fits_the_transactions_of_etcd() -> None:
    limits = Limits(operations=128)
    parts = [(start, start + 1) for start in range(MAX_FILES)]
    files = [data_file(start, end, SEGMENT) for start, end in parts]
    copies = [data_file(start, end, PARQUET) for start, end in parts]
    job = Job(
        id="j", kind="both", stream=1, topic="t", topic_id="i", partition=0, start=0,
        end=MAX_FILES, created_ms=0,
    )  # fmt: skip

    def stored(job: Job) -> dict[str, Entry | None]:
        key = keys.job(0, 1)
        return {key: Entry(key, encode(job), 1), keys.layout(0, 1): None}

    writes, fixed = fix_manifest(job, Manifest(files, (), copies), 0)(stored(job))
    check_writes(limits, writes)
    assert fixed is not None
    fixed.state = ICEBERG_COMMITTED
    entries = [entry(start, end) for start, end in parts]
    writes, _ = swap_files(fixed, entries, 0, 0)(stored(fixed))
    check_writes(limits, writes)


def data_file(start: int, end: int, kind: int) -> DataFile:
    return DataFile(
        key=f"tables/i/{kind}/{start}", store="s", size=1, rows=1, start=start, end=end,
        min_timestamp=0, max_timestamp=0, kind=kind,
    )  # fmt: skip
