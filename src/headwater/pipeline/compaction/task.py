"""What a Spark executor does: one range of one stream becomes Parquet files.

A task comes as bytes and answers as bytes, so that Spark moves neither records nor objects. It
never raises for what is wrong with the data or with a store: the answer says so, and the other
ranges of the same Spark job go on.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final
from uuid import uuid4

import msgspec

from headwater.errors import ConfigurationError, HeadwaterError, ObjectNotFound
from headwater.log.formats.file_notes import NOTES, encode_notes
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry
from headwater.log.jobs.jobs import DataFile, Job, data_file_key
from headwater.meta.values import decode, encode
from headwater.pipeline.compaction.planner import BOTH, DENSE, SEGMENTS
from headwater.pipeline.object_reads import ObjectReads, open_reads
from headwater.topic_config.table import LOG_PARTITIONING

RESULT_SCHEMA: Final = "result binary"


class Cleaning(msgspec.Struct, array_like=True):
    """What a cleaning task needs beside its range."""

    dirty: list[bytes]
    """The entries, packed, whose keys supersede others."""
    now_ms: int
    horizon_ms: int
    """Until when the tombstones of dirty files are kept."""
    drops_tombstones: bool
    """Whether everything below the job's range is gone, so that nothing can come back."""


class RangeTask(msgspec.Struct, kw_only=True):
    """One file to write: the entries that make up ``[start, end)`` of a job's range.

    A trim may have taken the first of them; the range stays.
    """

    job: Job
    start: int
    end: int
    entries: list[IndexEntry]
    keep_from: int = 0
    """Records below this offset were deleted and are not written."""
    objects_url: str
    partitioning: str = LOG_PARTITIONING
    """Of the table, where it is a copy."""
    cleaning: Cleaning | None = None
    """Where records go that are not the last of their key."""


class RangeResult(msgspec.Struct, kw_only=True):
    """What became of a task; its parts make up the range unless it failed."""

    job: str
    start: int
    files: list[DataFile] = msgspec.field(default_factory=list)
    copies: list[DataFile] = msgspec.field(default_factory=list)
    set_aside: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    chunk_bytes: int = 0
    cpu_seconds: float = 0.0
    failure: str = ""
    gone: bool = False
    """An object of the range is not there: the plan is stale."""


class PackedTask(msgspec.Struct, array_like=True):
    """A task on its way; stored values are packed in their own format."""

    release: str
    """Of Headwater, where the task was made; first, so that any release can read it."""
    job: bytes
    start: int
    end: int
    entries: list[bytes]
    keep_from: int
    objects_url: str
    partitioning: str
    cleaning: Cleaning | None


def pack(task: RangeTask) -> bytes:
    """A task as bytes."""
    packed = PackedTask(
        _release(),
        encode(task.job),
        task.start,
        task.end,
        [encode(entry) for entry in task.entries],
        task.keep_from,
        task.objects_url,
        task.partitioning,
        task.cleaning,
    )
    return msgspec.msgpack.encode(packed)


def unpack(data: bytes) -> RangeTask:
    """The task that ``pack`` packed."""
    packed = msgspec.msgpack.decode(data, type=PackedTask)
    return RangeTask(
        job=decode(Job, packed.job),
        start=packed.start,
        end=packed.end,
        entries=[decode(IndexEntry, entry) for entry in packed.entries],
        keep_from=packed.keep_from,
        objects_url=packed.objects_url,
        partitioning=packed.partitioning,
        cleaning=packed.cleaning,
    )


def in_arrow(tasks: Sequence[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` over a range of task numbers."""
    return partial(_run_numbered, list(tasks))


def _run_numbered(tasks: list[bytes], numbers: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"result": [run_packed(tasks[number])]})


def run_packed(task: bytes) -> bytes:
    """Run a packed task; the result is a packed ``RangeResult``, or that of a check.

    Raises ``ConfigurationError`` where another release of Headwater made it.
    """
    from headwater.pipeline.fsck.task import CHECK, run_check

    release, what = msgspec.msgpack.decode(task)[:2]
    if release != _release():
        raise ConfigurationError(
            f"Spark's executors have headwater {_release()} and this process has {release}; "
            "install the same release on both"
        )
    if what == CHECK:
        return run_check(task)
    return msgspec.msgpack.encode(run(unpack(task)))


@cache
def _release() -> str:
    return version("headwater")


def run(task: RangeTask) -> RangeResult:
    """Write the files of a task's range."""
    began = time.process_time()
    result = RangeResult(job=task.job.id, start=task.start)
    try:
        reads = open_reads(task.objects_url)
        try:
            _write_parts(task, reads, result)
        finally:
            reads.close()
    except ObjectNotFound as error:
        result.failure, result.gone = str(error), True
    except HeadwaterError as error:
        result.failure = str(error)
    result.chunk_bytes = sum(entry.length for entry in task.entries)
    result.cpu_seconds = time.process_time() - began
    return result


def _write_parts(task: RangeTask, reads: ObjectReads, result: RangeResult) -> None:
    """One file in the usual case; around damaged chunks, which are all looked for, several."""
    from headwater.pipeline.compaction.chunks import DamagedChunk

    if task.job.kind in DENSE and task.entries[0].start > task.start:
        # A trim took what was before it. A file of rows may lack some; a segment is dense.
        result.set_aside = [(task.start, task.entries[0].start, "its records were deleted")]
        task = msgspec.structs.replace(task, start=task.entries[0].start)
    try:
        _write_file(task, reads, task.start, task.end, task.entries, result)
    except DamagedChunk:
        damaged = list(_find_damaged(task, reads))
        # What was finished before the damage was met comes into no manifest.
        result.files, result.copies = [], []
        result.set_aside += [(entry.start, entry.end, reason) for entry, reason in damaged]
        start = task.start
        for stop, after in [*((entry.start, entry.end) for entry, _ in damaged), (task.end, 0)]:
            if start < stop:
                inside = [entry for entry in task.entries if start <= entry.start < stop]
                _write_file(task, reads, start, stop, inside, result)
            start = after


def _find_damaged(task: RangeTask, reads: ObjectReads) -> Iterator[tuple[IndexEntry, str]]:
    from headwater.pipeline.compaction.chunks import DamagedChunk, record_batches

    for entry in task.entries:
        try:
            for _ in record_batches([entry], reads, partition=task.job.partition):
                pass
        except DamagedChunk as error:
            yield entry, error.reason


def _write_file(
    task: RangeTask,
    reads: ObjectReads,
    start: int,
    end: int,
    entries: Sequence[IndexEntry],
    result: RangeResult,
) -> None:
    """Write one part of a range, and add what was written to the result."""
    from headwater.tables.files.parquet import FileTarget, write_range

    job = task.job
    # A copy has not all records of its range: it is never put back into a log.
    chunks = {} if job.kind == BOTH else {NOTES: encode_notes(entries)}
    if job.kind in DENSE:
        from headwater.pipeline.compaction.segment_files import write_segment

        result.files.append(write_segment(job, entries, reads, task.objects_url))
    if job.kind == SEGMENTS:
        return
    target = FileTarget(
        objects_url=task.objects_url,
        key=data_file_key(job, start, end, uuid4().hex[:12]),
        partition=job.partition,
        start=start,
        end=end,
        notes={
            "headwater.topic": job.topic,
            "headwater.topic-id": job.topic_id,
            "headwater.stream": str(job.stream),
            "headwater.job": job.id,
            **chunks,
        },
    )
    if task.cleaning is not None:
        from headwater.pipeline.upkeep.clean_task import Cleaner

        cleaner = Cleaner(task.cleaning, reads, job.partition)
        written = write_range(cleaner.records(entries, task.keep_from), target)
        written.delete_horizon_ms = cleaner.horizon_ms
        result.files.append(written)
        return
    records = _records(task, reads, entries)
    if job.kind == BOTH:
        from headwater.tables.files.copies import write_copies

        result.copies += write_copies(records, target, task.partitioning)
    else:
        result.files.append(write_range(records, target))


def _records(task: RangeTask, reads: ObjectReads, entries: Sequence[IndexEntry]) -> Iterator[Any]:
    """The records of entries that are kept: of chunks, or of files that are rewritten."""
    from headwater.pipeline.compaction.chunks import record_batches

    partition = task.job.partition
    if all(entry.kind in (INLINE, WAL) for entry in entries):
        return record_batches(entries, reads, partition=partition, keep_from=task.keep_from)
    from headwater.pipeline.fsck.task import COLUMNS
    from headwater.pipeline.source.filters import Wanted
    from headwater.pipeline.source.read import read_entries

    low = max(task.start, task.keep_from)
    return read_entries(entries, reads, partition, low, task.end, COLUMNS, Wanted())


def warm_up() -> None:
    """Import and compile what tasks use, so that the processes forked from this one have it."""
    import pyarrow as pa

    import headwater.tables.files.parquet
    from headwater.pipeline.compaction.chunks import decode_all
    from headwater.wire.batches.records import Record, encode_batch

    pa.set_cpu_count(1)
    list(decode_all(bytearray(encode_batch([Record(0, 0, None, b"")])), 0))
    assert headwater.tables.files.parquet
