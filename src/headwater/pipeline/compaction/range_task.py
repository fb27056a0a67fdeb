"""A Spark task that writes one range of one stream to Parquet or segment files.

A task and its result are bytes, so that Spark transfers neither records nor objects. A task does
not raise for damaged data or a failing store: its result reports the failure, and the other tasks
of the Spark job continue.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

import msgspec

from headwater.errors import ConfigurationError, HeadwaterError, ObjectNotFound
from headwater.log.formats.file_notes import NOTES, encode_notes
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry
from headwater.log.jobs.jobs import DataFile, Job, data_file_key
from headwater.pipeline.compaction.planner import BOTH, DENSE, SEGMENTS
from headwater.pipeline.headwater_version import headwater_version
from headwater.pipeline.object_reads import ObjectReads, open_reads
from headwater.topic_config.table import LOG_PARTITIONING

RESULT_SCHEMA: Final = "result binary"
RANGE: Final = "range"
"""The kind of these tasks, in the second field of an encoded task."""


class KeyCompaction(msgspec.Struct, array_like=True):
    """The part of a task that is specific to key compaction."""

    dirty: list[IndexEntry]
    """The index entries whose keys supersede older records."""
    now_ms: int
    horizon_ms: int
    """Tombstones from dirty files are kept until this time."""
    drops_tombstones: bool
    """Whether the job begins at the log start, so that no older value can reappear."""


class RangeTask(msgspec.Struct, array_like=True, kw_only=True):
    """One file to write, from the entries in the range ``[start, end)`` of a job.

    A trim may have removed the first entries; the range stays.
    """

    version: str = msgspec.field(default_factory=headwater_version)
    """Of Headwater in the process that made the task; first, so that any version can read it."""
    kind: str = RANGE
    job: Job
    start: int
    end: int
    entries: list[IndexEntry]
    keep_from: int = 0
    """Records below this offset were deleted and are not written."""
    objects_url: str
    partitioning: str = LOG_PARTITIONING
    """The partitioning of a table that is a copy of the log."""
    key_compaction: KeyCompaction | None = None


class RangeResult(msgspec.Struct, kw_only=True):
    """The result of a task. Without a failure, the files and ``set_aside`` cover its range."""

    job: str
    start: int
    files: list[DataFile] = msgspec.field(default_factory=list)
    copies: list[DataFile] = msgspec.field(default_factory=list)
    set_aside: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    chunk_bytes: int = 0
    cpu_seconds: float = 0.0
    failure: str = ""
    gone: bool = False
    """Whether an object of the range does not exist: the plan is stale."""


def pack(task: RangeTask) -> bytes:
    """Encode a task."""
    return msgspec.msgpack.encode(task)


def unpack(data: bytes) -> RangeTask:
    """Decode a task."""
    return msgspec.msgpack.decode(data, type=RangeTask)


def in_arrow(tasks: Sequence[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for ``mapInArrow`` that runs the tasks whose numbers it receives."""
    return partial(_run_numbered, list(tasks))


def _run_numbered(tasks: list[bytes], numbers: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"result": [run_packed(tasks[number])]})


def run_packed(task: bytes) -> bytes:
    """Run an encoded task; returns an encoded ``RangeResult`` or ``CheckResult``.

    Raises ``ConfigurationError`` if another version of Headwater made the task.
    """
    from headwater.pipeline.fsck.check_task import CHECK, run_check

    version, kind = msgspec.msgpack.decode(task)[:2]
    if version != headwater_version():
        raise ConfigurationError(
            f"Spark's executors have headwater {headwater_version()} and this process has "
            f"{version}; install the same version on both"
        )
    if kind == CHECK:
        return run_check(task)
    return msgspec.msgpack.encode(run(unpack(task)))


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
    """Write one file. If chunks are damaged, write one file for each part between them."""
    from headwater.pipeline.compaction.chunks import DamagedChunk

    if task.job.kind in DENSE and task.entries[0].start > task.start:
        # A trim removed the records before it. A Parquet file may have gaps; a segment may not.
        result.set_aside = [(task.start, task.entries[0].start, "its records were deleted")]
        task = msgspec.structs.replace(task, start=task.entries[0].start)
    try:
        _write_file(task, reads, task.start, task.end, task.entries, result)
    except DamagedChunk:
        damaged = list(_find_damaged(task, reads))
        # Files that were finished before the damage was found are in no manifest.
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
    # A copy may lack records of its range, so a restore must not put it into a log.
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
    if task.key_compaction is not None:
        from headwater.pipeline.upkeep.key_compaction import KeyCompactor

        compactor = KeyCompactor(task.key_compaction, reads, job.partition)
        written = write_range(compactor.records(entries, task.keep_from), target)
        written.delete_horizon_ms = compactor.horizon_ms
        result.files.append(written)
        return
    records = _records(task, reads, entries)
    if job.kind == BOTH:
        from headwater.tables.files.partitioned import write_copies

        result.copies += write_copies(records, target, task.partitioning)
    else:
        result.files.append(write_range(records, target))


def _records(task: RangeTask, reads: ObjectReads, entries: Sequence[IndexEntry]) -> Iterator[Any]:
    """The kept records of chunks, or of files that are rewritten."""
    from headwater.pipeline.compaction.chunks import record_batches

    partition = task.job.partition
    if all(entry.kind in (INLINE, WAL) for entry in entries):
        return record_batches(entries, reads, partition=partition, keep_from=task.keep_from)
    from headwater.pipeline.fsck.check_task import COLUMNS
    from headwater.pipeline.source.filters import ReadFilter
    from headwater.pipeline.source.read import read_entries

    low = max(task.start, task.keep_from)
    return read_entries(entries, reads, partition, low, task.end, COLUMNS, ReadFilter())


def warm_up() -> None:
    """Import and compile everything that tasks use, before worker processes are forked."""
    import pyarrow as pa

    import headwater.tables.files.parquet
    from headwater.pipeline.compaction.chunks import decode_all
    from headwater.wire.batches.records import Record, encode_batch

    pa.set_cpu_count(1)
    list(decode_all(bytearray(encode_batch([Record(0, 0, None, b"")])), 0))
    assert headwater.tables.files.parquet
