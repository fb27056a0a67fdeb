"""What a Spark executor does for a deep check: reads entries whole, and says what is wrong.

A task comes as bytes and answers as bytes; see ``task``.
"""

import zlib
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec

from headwater.errors import CorruptMessage, HeadwaterError, InvalidRecord, ObjectNotFound
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, IndexEntry
from headwater.log.formats.segment import FOOTER, HEADER
from headwater.meta.values import decode, encode
from headwater.pipeline.object_reads import ObjectReads, open_reads

CHECK: Final = "check"
"""The second field of a packed check; that of other tasks is no text."""

PART: Final = 8 * 2**20
COLUMNS: Final = (
    "partition", "offset", "timestamp", "key", "value", "headers", "producer_id",
    "producer_epoch", "base_sequence", "attributes", "record_crc",
)  # fmt: skip


class CheckTask(msgspec.Struct, array_like=True):
    """Entries of one stream, each to be read whole."""

    release: str
    """See ``task.PackedTask``."""
    what: str
    stream: int
    name: str
    partition: int
    entries: list[bytes]
    objects_url: str


class CheckResult(msgspec.Struct, array_like=True):
    """What was read, and what was wrong.

    Each problem: start, end and object of the entry, what it is, whether the object is gone.
    """

    stream: int
    name: str
    records: int
    bytes: int
    problems: list[tuple[int, int, str, str, bool]]


def pack_check(
    stream: int, name: str, partition: int, entries: Sequence[IndexEntry], objects_url: str
) -> bytes:
    """A check as bytes."""
    packed = [encode(entry) for entry in entries]
    release = version("headwater")
    task = CheckTask(release, CHECK, stream, name, partition, packed, objects_url)
    return msgspec.msgpack.encode(task)


def run_check(data: bytes) -> bytes:
    """Run a packed check; the result is a packed ``CheckResult``."""
    task = msgspec.msgpack.decode(data, type=CheckTask)
    result = CheckResult(task.stream, task.name, 0, 0, [])
    reads = open_reads(task.objects_url)
    try:
        for packed in task.entries:
            entry = decode(IndexEntry, packed)
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
    """Read and decode everything of an entry; returns its records.

    Raises ``HeadwaterError`` where something is wrong with it.
    """
    from headwater.pipeline.source.filters import Wanted
    from headwater.pipeline.source.read import read_entries

    if entry.kind == SEGMENT:
        _check_sum(entry, reads)
    found = read_entries([entry], reads, partition, entry.start, entry.end, COLUMNS, Wanted())
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
            raise InvalidRecord(f"offsets do not ascend from {next_offset} on")
        if entry.kind == PARQUET and not _all(batch, partition):
            raise InvalidRecord(f"it has records of another partition than {partition}")
        next_offset = int(offsets[-1]) + 1
        count += len(offsets)
    return count


def _all(batch: Any, partition: int) -> bool:
    values = batch.column("partition").to_numpy()
    return bool((values == partition).all())


def _check_sum(entry: IndexEntry, reads: ObjectReads) -> None:
    """A segment's own checksum, over its batches."""
    position, stop, found = HEADER.size, entry.length - FOOTER.size, 0
    while position < stop:
        part = reads.read(entry.key, position, min(PART, stop - position))
        found = zlib.crc32(part, found)
        position += len(part)
    said, _, _ = FOOTER.unpack(bytes(reads.read(entry.key, stop, FOOTER.size)))
    if said != found:
        raise CorruptMessage(f"{entry.key}: its checksum {said:#010x} does not match its bytes")
