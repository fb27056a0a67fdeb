"""Where the records of one stream go in a restore: pure functions over what survived.

Invariants, for every stream:

- The index is dense from log start to the high watermark; each offset is in one entry.
- A surviving record with a known offset keeps its offset. Offsets are known for records in the
  snapshot, in files of tables and segments (their keys state the range), and in merged chunks
  (their objects state the first offset).
- The chunk of a flush does not state its offsets. If a file notes it as an input, or a segment or
  merged chunk has the same batches byte for byte, it is not placed again. Otherwise it lies between
  its neighbours in the order of its incarnation. It is placed at the end of the last gap between
  them into which it fits. Without such a gap it comes after all known offsets. So a record never
  gets a lower offset than before.
- Assigned offsets below the last known one whose records are lost become a ``HOLE``.
- The compacted part is a prefix of the log, up to ``compacted``. Chunks and holes below it are put
in
  quarantine, because the table takes nothing more there.
- A file after a gap in that prefix is used if some of its records are nowhere else, and nothing is
  known to survive in the gap: the records there were deleted. A chunk with unknown offsets never
  goes into such a gap, because no job would compact it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.log.formats.metadata_values import HOLE, INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.restore.recovery import FoundBatch

LOST: Final = "its records were lost with the metadata store"
PASSED_OVER: Final = "its table passed over it before the metadata store was lost"


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """A batch, its number in its chunk, and its first offset."""

    offset: int
    number: int
    batch: FoundBatch

    @property
    def end(self) -> int:
        return self.offset + self.batch.count


@dataclass(frozen=True, slots=True)
class KnownRange:
    """A range with known offsets, and its index entry.

    ``batches`` are all batches of a chunk or segment; of a Parquet file, those of idempotent
    producers.
    """

    entry: IndexEntry
    batches: Sequence[PlacedBatch]
    produced: int
    """Bytes that it adds to the stream's running size."""
    live: bool = False
    """Whether it is a file of the table."""
    has_chunks: bool = False
    """Whether the chunks in its note cover its range, so that they could be placed instead."""

    @property
    def start(self) -> int:
        return self.entry.start

    @property
    def end(self) -> int:
        return self.entry.end


@dataclass(frozen=True, slots=True)
class UnplacedBatches:
    """Batches of a chunk with unknown offsets; the range of the entry begins at 0."""

    entry: IndexEntry
    batches: Sequence[PlacedBatch]
    after: int
    """The known end of the records that its incarnation wrote before it."""
    before: int | None
    """The known start of the records that its incarnation wrote after it; None if unknown."""

    @property
    def count(self) -> int:
        return self.entry.end


class Ranges:
    """Disjoint ranges of offsets."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, start: int, end: int) -> None:
        first = bisect_left(self._ends, start)
        after = bisect_right(self._starts, end)
        if first < after:
            start = min(start, self._starts[first])
            end = max(end, self._ends[after - 1])
        self._starts[first:after] = [start]
        self._ends[first:after] = [end]

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The gaps in ``[start, end)``, in order."""
        number = bisect_right(self._ends, start)
        while start < end and number < len(self._starts) and self._starts[number] < end:
            if start < self._starts[number]:
                yield start, self._starts[number]
            start = self._ends[number]
            number += 1
        if start < end:
            yield start, end

    def cover(self, start: int, end: int) -> bool:
        return next(self.gaps(start, end), None) is None

    def touch(self, start: int, end: int) -> bool:
        return start < end and next(self.gaps(start, end), None) != (start, end)

    @property
    def end(self) -> int:
        return self._ends[-1] if self._ends else 0


@dataclass(slots=True)
class PlacedStream:
    """The new entries of a stream in order, with their batches, and the entries that they
    replace.
    """

    pieces: list[tuple[IndexEntry, Sequence[PlacedBatch], int]] = field(default_factory=list)
    """(entry, batches, bytes added to the running size)."""
    replaced: list[IndexEntry] = field(default_factory=list)
    kept: list[IndexEntry] = field(default_factory=list)
    """Entries of the snapshot that are changed."""
    known_to: int = 0
    """Offsets below this have the same records as before the metadata store was lost."""


class StreamPlacement:
    """Collects what survived of one stream; ``entries`` are the snapshot's, up to ``end``."""

    def __init__(self, entries: Sequence[IndexEntry], end: int, log_start: int) -> None:
        self._entries = list(entries)
        self._end = end
        self._known: list[KnownRange] = []
        self._replaced: list[IndexEntry] = []
        self._offsets: dict[tuple[int, int], list[int]] = {}
        self._loose: list[UnplacedBatches] = []
        self.covered = Ranges()
        self.covered.add(0, end)
        self._passed = Ranges()
        """Gaps inside the compacted prefix."""
        self.compacted = _compacted(entries, end, log_start)

    def place_files(
        self,
        files: Sequence[KnownRange],
        *,
        mark: int | None,
        unreadable: int | None,
        elsewhere: Ranges | None = None,
    ) -> list[KnownRange]:
        """Place the files that extend the compacted prefix; returns the placed ones.

        ``mark`` is the table's watermark, if the table could be read: records below it that are in
        no file were never meant for the table. ``unreadable`` is the start of the table's first
        unreadable file; from there on the table is ignored. ``elsewhere`` are the ranges of merged
        chunks and unreadable files.
        """
        taken: list[KnownRange] = []
        rest = sorted(files, key=lambda each: (each.start, not each.live, -each.end))
        while True:
            rest = [each for each in rest if each.start >= self.compacted]
            if unreadable is not None and self.compacted >= unreadable:
                return taken
            reach = self.compacted if mark is None else max(mark, self.compacted)
            if unreadable is not None:
                reach = min(reach, unreadable)
            found = next((each for each in rest if each.start <= reach and self._fits(each)), None)
            if found is None:
                self.compacted = reach
                found = next(filter(self._fits, rest), None)
                if found is None or found.has_chunks:
                    return taken
                if not self._may_pass(reach, found.start, unreadable, elsewhere):
                    return taken
                self._passed.add(reach, found.start)
            self._take_file(found)
            taken.append(found)
            self.compacted = found.end

    def _may_pass(
        self, start: int, end: int, unreadable: int | None, elsewhere: Ranges | None
    ) -> bool:
        """Whether nothing is known to survive in a gap of the compacted prefix."""
        if unreadable is not None and unreadable < end:
            return False
        return not self.covered.touch(start, end) and not (
            elsewhere and elsewhere.touch(start, end)
        )

    def place_segments(self, files: Sequence[KnownRange]) -> list[KnownRange]:
        """Place the segments of a stream without a table, at any offset."""
        taken = []
        for each in sorted(files, key=lambda each: (each.start, -each.end)):
            if self._fits(each):
                self._take_file(each)
                taken.append(each)
        return taken

    def _fits(self, file: KnownRange) -> bool:
        """Whether it covers whole entries of the snapshot, and nothing that was placed since."""
        if self.covered.touch(max(file.start, self._end), max(file.end, self._end)):
            return False
        bounds = {entry.start for entry in self._entries} | {entry.end for entry in self._entries}
        return all(
            bound >= self._end or bound in bounds for bound in (file.start, file.end)
        ) and not any(
            entry.kind in (PARQUET, SEGMENT) and _overlap(entry, file) for entry in self._entries
        )

    def _take_file(self, file: KnownRange) -> None:
        gone = [entry for entry in self._entries if _overlap(entry, file)]
        self._replaced += gone
        self._entries = [entry for entry in self._entries if not _overlap(entry, file)]
        self._known.append(file)
        self.covered.add(file.start, file.end)
        self.state_batches(file.batches)

    def state_batches(self, batches: Sequence[PlacedBatch]) -> None:
        """Note that these batches are at these offsets, byte for byte."""
        for each in batches:
            if each.offset >= self._end and each.batch.crc is not None:
                offsets = self._offsets.setdefault((each.batch.crc, each.batch.size), [])
                if each.offset not in offsets:
                    offsets.append(each.offset)

    def place_chunk(self, chunk: KnownRange) -> bool:
        """Place the batches of a chunk that are not placed yet; returns whether there are any."""
        parts = list(_outside(chunk, self.covered))
        for part in parts:
            self._known.append(part)
            self.covered.add(part.start, part.end)
        return bool(parts)

    def find(self, batch: FoundBatch) -> int | None:
        """The offset of an equal batch that is placed already; returns each placed batch once."""
        offsets = self._offsets.get((batch.crc, batch.size)) if batch.crc is not None else None
        return offsets.pop(0) if offsets else None

    def add_loose(self, loose: UnplacedBatches) -> None:
        self._loose.append(loose)

    @property
    def known_batches(self) -> Iterator[PlacedBatch]:
        for known in self._known:
            yield from known.batches

    def finish(self) -> PlacedStream:
        """The stream after the restore."""
        placed = PlacedStream(replaced=self._replaced)
        known_end = max(self.covered.end, self.compacted)
        gapped, last = self._into_gaps()
        pieces = [(each.entry, each.batches, each.produced) for each in self._known] + gapped
        placed.known_to = min(
            [known_end, *(entry.start for entry, _, _ in gapped)]
            + [start for start, _ in self.covered.gaps(self._end, known_end)]
        )
        for start, end in list(self.covered.gaps(self._end, known_end)):
            pieces.append((_hole(start, end), (), 0))
        end = known_end
        for loose in last:
            pieces.append(_at(loose, end))
            end += loose.count
        placed.pieces = sorted(pieces, key=lambda piece: piece[0].start)
        for entry in self._entries:
            if self._passed_over(entry):
                entry.set_aside = PASSED_OVER
                placed.kept.append(entry)
        for entry, _, _ in placed.pieces:
            if self._passed_over(entry):
                entry.set_aside = PASSED_OVER
        return placed

    def _into_gaps(
        self,
    ) -> tuple[list[tuple[IndexEntry, Sequence[PlacedBatch], int]], list[UnplacedBatches]]:
        """Fill gaps from their ends; returns the entries in gaps, and the batches for the end."""
        gapped, last = [], []
        for loose in reversed(self._loose):
            gap = None
            if loose.before is not None:
                gaps = self.covered.gaps(max(loose.after, self._end), loose.before)
                open_gaps = (one for one in gaps if not self._passed.touch(*one))
                gap = max(
                    (one for one in open_gaps if one[1] - one[0] >= loose.count), default=None
                )
            if gap is None:
                last.append(loose)
                continue
            start = gap[1] - loose.count
            gapped.append(_at(loose, start))
            self.covered.add(start, gap[1])
        last.reverse()
        return gapped, last

    def _passed_over(self, entry: IndexEntry) -> bool:
        plain = entry.kind in (INLINE, WAL) and not entry.set_aside
        return plain and entry.end <= self.compacted


def _compacted(entries: Sequence[IndexEntry], end: int, log_start: int) -> int:
    """The start of the first chunk that a job would compact."""
    for entry in entries:
        if entry.end > log_start and entry.kind in (INLINE, WAL) and not entry.set_aside:
            return entry.start
    return end


def _overlap(entry: IndexEntry, file: KnownRange) -> bool:
    return entry.start < file.end and file.start < entry.end


def _outside(chunk: KnownRange, covered: Ranges) -> Iterator[KnownRange]:
    """The parts of a chunk that are not covered."""
    run: list[PlacedBatch] = []
    for each in chunk.batches:
        inside = covered.touch(each.offset, each.end)
        if run and (inside or each.offset != run[-1].end):
            yield _part(chunk, run)
            run = []
        if not inside:
            run.append(each)
    if run:
        yield _part(chunk, run)


def _part(chunk: KnownRange, run: list[PlacedBatch]) -> KnownRange:
    numbers = {each.number for each in run}
    left_out = set(chunk.entry.left_out) | {each.number for each in chunk.batches} - numbers
    entry = msgspec.structs.replace(
        chunk.entry,
        start=run[0].offset,
        end=run[-1].end,
        max_timestamp=max(each.batch.max_timestamp for each in run),
        left_out=sorted(left_out),
    )
    return KnownRange(entry, tuple(run), sum(each.batch.size for each in run))


def _at(loose: UnplacedBatches, start: int) -> tuple[IndexEntry, Sequence[PlacedBatch], int]:
    entry = msgspec.structs.replace(loose.entry, start=start, end=start + loose.count)
    batches = [PlacedBatch(start + each.offset, each.number, each.batch) for each in loose.batches]
    return entry, batches, sum(each.batch.size for each in loose.batches)


def _hole(start: int, end: int) -> IndexEntry:
    return IndexEntry(
        start=start,
        end=end,
        kind=HOLE,
        length=0,
        size=0,
        max_timestamp=-1,
        created_ms=0,
        set_aside=LOST,
    )
