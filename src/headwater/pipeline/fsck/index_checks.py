"""Checks of one stream's offset index against its tail and layout: pure functions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.errors import HeadwaterError
from headwater.log.formats.metadata_values import (
    HOLE,
    INLINE,
    OBJECTLESS,
    PARQUET,
    SEGMENT,
    WAL,
    IndexEntry,
    Layout,
    Tail,
)
from headwater.log.jobs.jobs import CREATED, INDEX_SWAPPED, Job
from headwater.wire.batches.batch import split_batches

KINDS = (INLINE, WAL, PARQUET, SEGMENT, HOLE)


@dataclass(frozen=True, slots=True)
class StreamCopy:
    """A consistent copy of a stream's metadata, without inline data."""

    layout: Layout
    tail: Tail
    entries: Sequence[IndexEntry]


def index_problems(copy: StreamCopy) -> Iterator[str]:
    """Problems of a stream's index; none if it is dense from log start to end."""
    log_start, end = copy.layout.log_start, copy.tail.high_watermark
    if not log_start <= end:
        yield f"log start {log_start} is above the high watermark {end}"
    if not copy.tail.last_stable <= end:
        yield f"the last stable offset {copy.tail.last_stable} is above the high watermark {end}"
    entries = [entry for entry in copy.entries if entry.end > log_start]
    yield from _gaps(entries, log_start, end)
    for before, entry in pairwise(entries):
        if entry.size < before.size:
            yield f"the running size falls from {before.size} to {entry.size} at {entry.end}"
    if entries and entries[-1].end == end and entries[-1].size != copy.tail.size:
        yield f"the running size is {entries[-1].size} at the end, and {copy.tail.size} in the tail"
    for entry in entries:
        yield from _entry_problems(entry)


def _gaps(entries: Sequence[IndexEntry], log_start: int, end: int) -> Iterator[str]:
    if not entries:
        if log_start < end:
            yield f"no entry has [{log_start}, {end})"
        return
    if entries[0].start > log_start:
        yield f"no entry has [{log_start}, {entries[0].start})"
    for before, entry in pairwise(entries):
        if entry.start > before.end:
            yield f"no entry has [{before.end}, {entry.start})"
        elif entry.start < before.end:
            yield f"two entries have [{entry.start}, {before.end})"
    if entries[-1].end < end:
        yield f"no entry has [{entries[-1].end}, {end})"


def _entry_problems(entry: IndexEntry) -> Iterator[str]:
    where = f"entry [{entry.start}, {entry.end})"
    if entry.start >= entry.end:
        yield f"{where} is empty"
    if entry.kind not in KINDS:
        yield f"{where} has kind {entry.kind}, which this version does not know"
    elif entry.kind not in OBJECTLESS and (not entry.key or entry.length <= 0):
        yield f"{where} refers to {entry.length} bytes of object {entry.key!r}"


def inline_problem(entry: IndexEntry) -> str | None:
    """A problem of an inline entry's data."""
    if entry.data is None or len(entry.data) != entry.length:
        return f"entry [{entry.start}, {entry.end}) lacks its data"
    try:
        batches = split_batches(entry.data)
    except HeadwaterError as error:
        return f"entry [{entry.start}, {entry.end}): {error}"
    left_out = frozenset(entry.left_out)
    count = sum(batch.count for number, batch in enumerate(batches) if number not in left_out)
    if count != entry.end - entry.start:
        return f"entry [{entry.start}, {entry.end}) has {count} records"
    return None


def job_problems(job: Job, copy: StreamCopy) -> Iterator[str]:
    """Problems of an open job, given its stream."""
    if not CREATED <= job.state <= INDEX_SWAPPED:
        yield f"its state is {job.state}, which this version does not know"
    if not job.start < job.end <= copy.tail.last_stable:
        yield (
            f"its range is [{job.start}, {job.end}), and the last stable offset is "
            f"{copy.tail.last_stable}"
        )
    ends = {copy.layout.log_start, *(entry.end for entry in copy.entries)}
    ends |= {entry.start for entry in copy.entries}
    for offset in (job.start, job.end):
        if offset > copy.layout.log_start and offset not in ends:
            yield f"its range [{job.start}, {job.end}) cuts an index entry at {offset}"
