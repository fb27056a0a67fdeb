"""Manifests of jobs: which files they may have, and how many."""

import pytest

from headwater.errors import KafkaError
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.jobs.jobs import (
    DataFile,
    Job,
    Manifest,
    ManifestTooLarge,
    check_manifest,
    data_file_key,
    fit_manifest,
    fix_manifest,
    job_of_file,
)
from headwater.log.jobs.swap import rearrange
from headwater.meta import keys
from headwater.meta.store import Entry
from headwater.meta.values import encode


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
    with pytest.raises(ManifestTooLarge, match=r"needs 8 writes.*takes 7"):
        fit_manifest(Manifest([part(0, 4, SEGMENT)], (), [part(0, 4)]), 7)


def test_a_rewrite_whose_manifest_ends_early_leaves_the_files_behind_it_in_the_table() -> None:
    job = Job(
        id="0a1b", kind="rewrite", stream=1, topic="t", topic_id="7f-3", partition=0,
        start=0, end=10, created_ms=0,
    )  # fmt: skip
    inputs = [data_file_key(job, start, start + 5, "a") for start in (0, 5)]
    job.inputs = list(inputs)
    decide = fix_manifest(job, Manifest([part(0, 5)]), 0)
    _, fixed = decide({keys.job(0, 1): Entry(keys.job(0, 1), encode(job), 1)})
    assert fixed is not None
    assert (fixed.end, fixed.inputs) == (5, inputs[:1])


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
    with pytest.raises(KafkaError, match="is not inside its range"):
        rearrange(job, [entry], 0)
    with pytest.raises(KafkaError, match="no index entry has the end"):
        rearrange(job, [], 0)
