"""A Spark task of a deep check: read index entries completely and report problems.

A task and its result are bytes; see ``compaction.range_task``.
"""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headwater.errors import CorruptMessage, HeadwaterError, InvalidRecord, ObjectNotFound
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, IndexEntry
from headwater.log.formats.segment import FOOTER, HEADER
from headwater.pipeline.headwater_version import headwater_version
from headwater.pipeline.object_reads import ObjectReads, open_reads

CHECK: Final = "check"
"""The kind of these tasks, in the second field of an encoded task."""

PART: Final = 8 * 2**20
COLUMNS: Final = (
    "partition", "offset", "timestamp", "key", "value", "headers", "producer_id",
    "producer_epoch", "base_sequence", "attributes", "record_crc",
)  # fmt: skip


class CheckTask(msgspec.Struct, array_like=True):
    """Index entries of one stream to read completely."""

    version: str
    """Of Headwater in the process that made the task."""
    kind: str
    stream: int
    name: str
    partition: int
    entries: list[IndexEntry]
    objects_url: str


class CheckResult(msgspec.Struct, array_like=True):
    """The records that were read, and the problems.

    A problem is (start, end, object key, description, whether the object is missing).
    """

    stream: int
    name: str
    records: int
    bytes: int
    problems: list[tuple[int, int, str, str, bool]]


def pack_check(
    stream: int, name: str, partition: int, entries: Sequence[IndexEntry], objects_url: str
) -> bytes:
    """Encode a task."""
    task = CheckTask(
        headwater_version(), CHECK, stream, name, partition, list(entries), objects_url
    )
    return msgspec.msgpack.encode(task)


def run_check(data: bytes) -> bytes:
    """Run an encoded task; returns an encoded ``CheckResult``."""
    task = msgspec.msgpack.decode(data, type=CheckTask)
    result = CheckResult(task.stream, task.name, 0, 0, [])
    reads = open_reads(task.objects_url)
    try:
        for entry in task.entries:
            try:
                result.records += _read_whole(entry, reads, task.partition)
            except ObjectNotFound as error:
                result.problems.append((entry.start, entry.end, entry.key, str(error), True))
            except HeadwaterError as error:
                result.problems.append((entry.start, entry.end, entry.key, str(error), False))
            result.bytes += entry.length
    finally:
        reads.close()
    return msgspec.msgpack.encode(result)


def _read_whole(entry: IndexEntry, reads: ObjectReads, partition: int) -> int:
    """Read and decode an entry completely; returns the number of records.

    Raises ``HeadwaterError`` if the entry or its object is damaged.
    """
    from headwater.pipeline.source.filters import ReadFilter
    from headwater.pipeline.source.read import read_entries

    if entry.kind == SEGMENT:
        _check_sum(entry, reads)
    found = read_entries([entry], reads, partition, entry.start, entry.end, COLUMNS, ReadFilter())
    try:
        return _count(found, entry, partition)
    except OSError as error:
        raise CorruptMessage(f"{entry.key}: {error}") from error


def _count(batches: Iterable[Any], entry: IndexEntry, partition: int) -> int:
    import numpy as np

    count, next_offset = 0, entry.start
    for batch in batches:
        offsets = batch.column("offset").to_numpy()
        if offsets[0] < next_offset or not (np.diff(offsets) > 0).all():
            raise InvalidRecord(f"offsets do not ascend from {next_offset}")
        if entry.kind == PARQUET and not _all(batch, partition):
            raise InvalidRecord(f"it has records that are not of partition {partition}")
        next_offset = int(offsets[-1]) + 1
        count += len(offsets)
    return count


def _all(batch: Any, partition: int) -> bool:
    values = batch.column("partition").to_numpy()
    return bool((values == partition).all())


def _check_sum(entry: IndexEntry, reads: ObjectReads) -> None:
    """Compare the checksum in a segment's footer with its batches."""
    position, stop, found = HEADER.size, entry.length - FOOTER.size, 0
    while position < stop:
        part = reads.read(entry.key, position, min(PART, stop - position))
        found = zlib.crc32(part, found)
        position += len(part)
    said, _, _ = FOOTER.unpack(bytes(reads.read(entry.key, stop, FOOTER.size)))
    if said != found:
        raise CorruptMessage(f"{entry.key}: its checksum {said:#010x} does not match its bytes")
