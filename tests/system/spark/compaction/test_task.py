"""What a task makes of chunks, whole ones and damaged ones."""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import ConfigurationError, ObjectNotFound, StoreUnavailable
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry
from headwater.log.jobs.jobs import Job, check_manifest
from headwater.pipeline.compaction.chunks import record_batches
from headwater.pipeline.compaction.range_task import RangeTask, pack, run, run_packed, unpack
from headwater.pipeline.object_reads import open_reads
from headwater.wire.batches.records import Record, encode_batch

TOPIC_ID = "5d0e54a8-0000-4000-8000-000000000001"


def batch(rng: random.Random, count: int, codec: int) -> bytes:
    records = [
        Record(
            number,
            1_700_000_000_000 + number,
            rng.choice([None, b"", b"key"]),
            rng.choice([None, rng.randbytes(rng.randrange(300))]),
            ((b"\xff\xfe", b"odd"),) * rng.randrange(3),
        )
        for number in range(count)
    ]
    return encode_batch(records, codec=codec)


class Chunks:
    """Chunks in a directory's objects, and the index entries that point at them."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root = root
        self.rng = random.Random(seed)
        self.entries: list[IndexEntry] = []

    @property
    def end(self) -> int:
        return self.entries[-1].end if self.entries else 0

    def add(
        self, batches: Sequence[tuple[int, int]], *, kind: int = WAL, left_out: Sequence[int] = ()
    ) -> IndexEntry:
        """A chunk of (records, codec) batches, some of which the commit left out."""
        data = b"".join(batch(self.rng, count, codec) for count, codec in batches)
        kept = [count for place, (count, _) in enumerate(batches) if place not in left_out]
        number = len(self.entries)
        entry = IndexEntry(
            start=self.end,
            end=self.end + sum(kept),
            kind=kind,
            length=len(data),
            size=0,
            max_timestamp=0,
            created_ms=0,
            left_out=list(left_out),
        )
        if kind == INLINE:
            entry.data = data
        else:
            entry.store, entry.key, entry.position = "local", f"wal/{number}.wo", 7
            path = self.root / entry.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"header." + data + b"footer")
        self.entries.append(entry)
        return entry

    def damage(self, entry: IndexEntry, position: int) -> None:
        path = self.root / entry.key
        data = bytearray(path.read_bytes())
        data[7 + position] ^= 0x55
        path.write_bytes(data)

    def task(self, *, keep_from: int = 0) -> RangeTask:
        job = Job(
            id="a1",
            kind="compact",
            stream=7,
            topic="t",
            topic_id=TOPIC_ID,
            partition=3,
            start=0,
            end=self.end,
            created_ms=0,
        )
        return RangeTask(
            job=job,
            start=0,
            end=self.end,
            entries=self.entries,
            keep_from=keep_from,
            objects_url=f"file://{self.root}",
        )

    def offsets(self, keys: Sequence[str]) -> list[int]:
        return [
            offset
            for key in keys
            for offset in pq.read_table(self.root / key, partitioning=None)
            .column("offset")
            .to_pylist()
        ]


def test_all_codecs_inline_and_left_out_batches_become_one_file(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.add([(5, 0), (4, 1), (3, 2)])
    chunks.add([(6, 3)], kind=INLINE)
    chunks.add([(2, 4), (9, 0), (1, 0)], left_out=[1])
    result = run(unpack(pack(chunks.task())))
    assert not result.failure
    (file,) = result.files
    assert (file.start, file.end, file.rows) == (0, 21, 21)
    assert file.size == (tmp_path / file.key).stat().st_size
    assert chunks.offsets([file.key]) == list(range(21))
    assert result.chunk_bytes == sum(entry.length for entry in chunks.entries)


def test_deleted_records_are_not_written(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.add([(5, 0), (5, 4)])
    chunks.add([(5, 0)])
    (file,) = run(chunks.task(keep_from=8)).files
    assert (file.start, file.end) == (0, 15)
    assert chunks.offsets([file.key]) == list(range(8, 15))


@pytest.mark.parametrize("damaged", [[0], [2], [4], [1, 2], [0, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("where", ["crc", "length", "records"])
def test_damaged_chunks_are_set_aside_and_the_rest_is_written(
    tmp_path: Path, damaged: list[int], where: str
) -> None:
    chunks = Chunks(tmp_path)
    for _ in range(5):
        chunks.add([(4, 0), (3, 4)])
    for number in damaged:
        chunks.damage(chunks.entries[number], {"crc": 18, "length": 9, "records": 59}[where])
    task = chunks.task()
    result = run(task)
    assert not result.failure
    check_manifest(task.job, result.files, result.set_aside)
    expected = [(chunks.entries[number].start, chunks.entries[number].end) for number in damaged]
    assert [part[:2] for part in result.set_aside] == expected
    assert all(part[2] for part in result.set_aside)
    good = [
        offset
        for number, entry in enumerate(chunks.entries)
        if number not in damaged
        for offset in range(entry.start, entry.end)
    ]
    assert chunks.offsets([file.key for file in result.files]) == good
    left = {str(file.relative_to(tmp_path)) for file in tmp_path.glob("tables/**/*.parquet")}
    assert left == {file.key for file in result.files}


def test_an_entry_that_counts_other_offsets_than_its_chunk_is_set_aside(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.add([(4, 0)])
    chunks.add([(4, 0)]).end += 2
    result = run(chunks.task())
    assert [part[:2] for part in result.set_aside] == [(4, 10)]
    assert [(file.start, file.end) for file in result.files] == [(0, 4)]


def test_an_object_that_is_gone_fails_the_range_and_leaves_nothing(tmp_path: Path) -> None:
    chunks = Chunks(tmp_path)
    chunks.add([(4, 0)])
    chunks.add([(4, 0)])
    (tmp_path / chunks.entries[1].key).unlink()
    result = run(chunks.task())
    assert result.gone
    assert "no such object" in result.failure
    assert not list(tmp_path.glob("tables/**/*.parquet"))


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 3000),
)
def test_any_window_gives_the_same_records(
    tmp_path_factory: pytest.TempPathFactory,
    shape: list[list[tuple[int, int]]],
    window: int,
) -> None:
    root = tmp_path_factory.mktemp("chunks")
    chunks = Chunks(root)
    for batches in shape:
        chunks.add(batches)
    reads = open_reads(f"file://{root}")
    found = [
        offset
        for each in record_batches(chunks.entries, reads, partition=0, window=window)
        for offset in each.column("offset").to_pylist()
    ]
    reads.close()
    assert found == list(range(chunks.end))


def test_executors_of_another_release_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = Chunks(tmp_path)
    chunks.add([(1, 0)])
    packed = pack(chunks.task())
    monkeypatch.setattr("headwater.pipeline.compaction.range_task.headwater_version", lambda: "9.9")
    with pytest.raises(ConfigurationError, match=r"executors have headwater 9\.9 and this"):
        run_packed(packed)


def test_reads_past_an_end_or_of_nothing_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    reads = open_reads(f"file://{tmp_path}")
    assert reads.read("a", 2, 3) == b"234"
    with pytest.raises(StoreUnavailable, match="a ends at byte 10, and 12 were expected"):
        reads.read("a", 8, 4)
    with pytest.raises(ObjectNotFound):
        reads.read("b", 0, 1)
    reads.close()
