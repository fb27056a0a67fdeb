"""Writing a range of a stream as a segment file with a sparse index.

``headwater.log.formats.segment`` describes the format.
"""

import zlib
from collections.abc import Iterator, Sequence
from uuid import uuid4

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedForMessageFormat
from headwater.log.formats.metadata_values import SEGMENT, IndexEntry
from headwater.log.formats.segment import (
    FOOTER,
    FOOTER_MAGIC,
    HEADER,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_MAGIC,
    INTERVAL,
    MAGIC,
    VERSION,
)
from headwater.log.jobs.jobs import DataFile, Job, data_file_key
from headwater.log.reclaim.releases import object_keys
from headwater.pipeline.compaction.chunks import WINDOW, DamagedChunk, kept_batches
from headwater.pipeline.object_reads import ObjectReads
from headwater.wire.batches.batch import Batch, split_batches


def write_segment(
    job: Job,
    entries: Sequence[IndexEntry],
    reads: ObjectReads,
    objects_url: str,
    *,
    interval: int = INTERVAL,
) -> DataFile:
    """Write the batches of neighbouring chunks to a segment, one window at a time.

    The segment and its index exist once this returns. Raises ``DamagedChunk``, and what the stores
    raise.
    """
    from headwater.tables.files.object_writer import create_object, store_id

    start, end = entries[0].start, entries[-1].end
    key = data_file_key(job, start, end, uuid4().hex[:12], SEGMENT)
    segment = _Segment(start, interval)
    with create_object(objects_url, key) as sink:
        sink.write(HEADER.pack(MAGIC, VERSION, 0, start, end - start, entries[-1].created_ms, 0))
        for run, batches in _runs(entries, reads):
            segment.add(run, batches)
            sink.write(run)
        sink.write(FOOTER.pack(segment.checksum, segment.offset - 1, FOOTER_MAGIC))
        size = sink.tell()
    with create_object(objects_url, object_keys(SEGMENT, key)[1]) as sink:
        sink.write(segment.index())
    return DataFile(
        key=key,
        store=store_id(objects_url),
        size=size,
        rows=end - start,
        start=start,
        end=end,
        min_timestamp=segment.min_timestamp,
        max_timestamp=segment.max_timestamp,
        kind=SEGMENT,
    )


def _runs(
    entries: Sequence[IndexEntry], reads: ObjectReads
) -> Iterator[tuple[bytearray, list[Batch]]]:
    """Runs of complete batches whose CRCs are correct."""
    for entry in entries:
        for run in kept_batches(entry, reads, WINDOW):
            try:
                yield run, split_batches(run)
            except (CorruptMessage, InvalidRecord, UnsupportedForMessageFormat) as error:
                raise DamagedChunk(entry, str(error)) from error


class _Segment:
    """The index and the footer of the batches so far."""

    def __init__(self, start: int, interval: int) -> None:
        self._interval = interval
        self._position = HEADER.size
        self._due = start
        self._marks = bytearray()
        self.offset = start
        self.checksum = 0
        self.min_timestamp = -1
        self.max_timestamp = -1

    def add(self, run: bytearray, batches: Sequence[Batch]) -> None:
        for batch in batches:
            if self.offset >= self._due:
                self._marks += INDEX_ENTRY.pack(self.offset, self._position)
                self._due = self.offset + self._interval
            self._position += batch.size
            self.offset += batch.count
            first = self.min_timestamp < 0
            self.min_timestamp = (
                batch.base_timestamp if first else min(self.min_timestamp, batch.base_timestamp)
            )
            self.max_timestamp = max(self.max_timestamp, batch.max_timestamp)
        self.checksum = zlib.crc32(run, self.checksum)

    def index(self) -> bytes:
        count = len(self._marks) // INDEX_ENTRY.size
        return INDEX_HEADER.pack(INDEX_MAGIC, VERSION, count, self._interval, 0) + self._marks
