"""Places the surviving records of a cluster; the rules are in ``placement``."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.log.formats.file_notes import ChunkNote
from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.log.formats.wal_object import UNKNOWN_START
from headwater.log.jobs.jobs import FileName, job_of_file, parse_file_key
from headwater.log.reclaim.releases import object_keys
from headwater.log.restore.placement import KnownRange, PlacedBatch, Ranges, UnplacedBatches
from headwater.log.restore.recovery import FoundChunk, FoundSection, Regained, incarnation_of
from headwater.log.restore.restored import Restored, TableHolding
from headwater.log.restore.surviving_files import SurvivingFile


@dataclass(slots=True)
class _Walked:
    """A chunk of a flush, and which of its batches are placed already."""

    section: FoundSection
    chunk: FoundChunk
    run: tuple[str, int]
    """Its incarnation and its stream."""
    after: int
    there: tuple[int, int] | None = None
    """First and last offset of the batches that are placed already."""
    loose: list[int] = field(default_factory=list)
    """The numbers of the other batches."""


class Rebuild:
    """Places files, then merged chunks, then the chunks of flushes."""

    def __init__(self, restored: Restored) -> None:
        self._restored = restored
        self._regained: dict[int, Regained] = {}
        self._notes: dict[tuple[str, int], tuple[int, ChunkNote]] = {}
        self._elsewhere: dict[int, Ranges] = {}
        """By stream, the ranges of merged chunks and of unreadable files."""

    def place_files(
        self,
        files: Sequence[SurvivingFile],
        held: Mapping[str, TableHolding],
        *,
        damaged: Sequence[FileName] = (),
        merged: Sequence[FoundSection] = (),
    ) -> None:
        """Place files. ``held`` has, by topic id, the content of the tables that could be read.

        ``damaged`` are unreadable files, ``merged`` the chunks that are placed later.
        """
        for name in damaged:
            stream = self._restored.stream_of(name)
            assert stream is not None
            self._elsewhere.setdefault(stream, Ranges()).add(name.start, name.end)
        for section in merged:
            for chunk in section.chunks:
                if chunk.info.start != UNKNOWN_START and chunk.info.records:
                    start = chunk.info.start
                    ranges = self._elsewhere.setdefault(chunk.info.stream, Ranges())
                    ranges.add(start, start + chunk.info.records)
        by_stream: dict[int, list[SurvivingFile]] = defaultdict(list)
        for file in files:
            stream = self._restored.stream_of(file.name)
            assert stream is not None
            by_stream[stream].append(file)
            for note in file.notes:
                self._notes[note.key, note.position] = (stream, note)
        for topic_id, topic in self._restored.by_topic_id.items():
            target, holding = self._restored.target_of(topic), held.get(topic_id)
            for partition, stream in enumerate(topic.streams):
                own = by_stream.get(stream, [])
                if own or holding is not None:
                    self._take(self._place(partition, stream, target, own, holding), stream)

    def _place(
        self,
        partition: int,
        stream: int,
        target: str,
        own: Sequence[SurvivingFile],
        holding: TableHolding | None,
    ) -> list[KnownRange]:
        """Place the files of one stream; returns the placed ones."""
        placement = self._restored.placement(stream)
        if target == "segment":
            return placement.place_segments([file.known for file in own])
        wanted = [
            # If the table lacks a segment's copies, the records would never get into the table.
            file.known
            for file in own
            if target != "both" or _in_table(file.name, holding)
        ]
        readable = {file.known.entry.key for file in own}
        return placement.place_files(
            wanted,
            mark=None if holding is None else holding.watermarks.get(stream, 0),
            unreadable=self._unreadable(partition, stream, readable, holding),
            elsewhere=self._elsewhere.get(stream),
        )

    def _take(self, taken: Sequence[KnownRange], stream: int) -> None:
        used = self._restored.used
        for known in taken:
            self._restored.found.files += 1
            used.jobs.add(job_of_file(known.entry.key) or "")
            for key in object_keys(known.entry.kind, known.entry.key):
                used.live[key].add(stream)
                used.sizes.setdefault(key, known.entry.length)

    def _unreadable(
        self, partition: int, stream: int, readable: set[str], holding: TableHolding | None
    ) -> int | None:
        """The start of the table's first file that is neither in the index nor readable."""
        if holding is None:
            return None
        indexed = {entry.key for entry in self._restored.entries(stream)}
        starts = [
            name.start
            for key in holding.files
            if key not in readable and key not in indexed and not self._restored.recorded(key)
            if (name := parse_file_key(key)) is not None
            and name.partition == partition
            and not name.is_copy
        ]
        return min(starts, default=None)

    def place_merged(self, sections: Sequence[FoundSection], sizes: Mapping[str, int]) -> None:
        """Place the chunks of merged objects, the longest first."""
        chunks: list[tuple[int, FoundSection, FoundChunk]] = []
        for section in sections:
            self._restored.used.sizes[section.key] = sizes[section.key]
            for chunk in section.chunks:
                if chunk.info.stream not in self._restored.streams:
                    self._restored.found.strangers.add(chunk.info.stream)
                    self._restored.used.unplaced.add(section.key)
                elif chunk.info.start == UNKNOWN_START:
                    self._restored.used.unplaced.add(section.key)
                else:
                    chunks.append((chunk.info.records, section, chunk))
        for _, section, chunk in sorted(chunks, key=lambda each: each[0], reverse=True):
            stream, start = chunk.info.stream, chunk.info.start
            batches = _placed(chunk, start)
            self._restored.placement(stream).state_batches(batches)
            self._place_chunk(stream, section, chunk, batches)

    def _place_chunk(
        self, stream: int, section: FoundSection, chunk: FoundChunk, batches: Sequence[PlacedBatch]
    ) -> None:
        if not batches:
            return
        entry = self._entry(section, chunk)
        entry.start, entry.end = batches[0].offset, batches[-1].end
        if self._restored.placement(stream).place_chunk(KnownRange(entry, batches, 0)):
            self._restored.used.live[section.key].add(stream)

    def walk(self, sections: Iterable[FoundSection], sizes: Mapping[str, int]) -> None:
        """Place the chunks of flushes, in the order in which they were written."""
        for stream, placement in self._restored.placements.items():
            for known in placement.known_batches:
                self._regain(stream).add(known.batch)
        walked: list[_Walked] = []
        reached: dict[tuple[str, int], int] = {}
        for section in sections:
            self._restored.found.sections += 1
            self._restored.used.sizes[section.key] = sizes[section.key]
            for chunk in section.chunks:
                self._restored.last_stream = max(self._restored.last_stream, chunk.info.stream)
                if chunk.info.stream not in self._restored.streams:
                    self._restored.found.strangers.add(chunk.info.stream)
                    self._restored.used.unplaced.add(section.key)
                    continue
                run = (incarnation_of(section.key), chunk.info.stream)
                each = self._look_for(section, chunk, run, reached.get(run, 0))
                walked.append(each)
                if each.there is not None:
                    reached[run] = max(reached.get(run, 0), each.there[1])
        following: dict[tuple[str, int], int] = {}
        loose: list[tuple[int, UnplacedBatches]] = []
        for each in reversed(walked):
            if each.loose:
                loose.append((each.run[1], self._loose(each, following.get(each.run))))
            if each.there is not None:
                start = each.there[0]
                following[each.run] = min(following.get(each.run, start), start)
        for stream, one in reversed(loose):
            self._restored.placement(stream).add_loose(one)

    def _look_for(
        self, section: FoundSection, chunk: FoundChunk, run: tuple[str, int], after: int
    ) -> "_Walked":
        stream = chunk.info.stream
        placement, regained = self._restored.placement(stream), self._regain(stream)
        walked = _Walked(section, chunk, run, after)
        noted = self._notes.get((section.key, section.position + chunk.info.position))
        if noted is not None and noted[0] == stream:
            note = noted[1]
            walked.there = (note.start, note.end)
            batches = _placed(chunk, note.start, note.left_out)
            for each in batches:
                regained.add(each.batch)
            self._place_chunk(stream, section, chunk, batches)
            return walked
        for number, batch in enumerate(chunk.batches):
            offset = placement.find(batch)
            if offset is not None:
                low, high = walked.there or (offset, offset)
                walked.there = (min(low, offset), max(high, offset + batch.count))
            elif regained.has(batch):
                self._restored.found.duplicates += 1
            else:
                regained.add(batch)
                walked.loose.append(number)
        return walked

    def _loose(self, walked: "_Walked", before: int | None) -> UnplacedBatches:
        chunk = walked.chunk
        offset, batches = 0, []
        for number in walked.loose:
            batches.append(PlacedBatch(offset, number, chunk.batches[number]))
            offset = batches[-1].end
        entry = self._entry(walked.section, chunk)
        entry.end = offset
        entry.left_out = sorted(set(range(len(chunk.batches))) - set(walked.loose))
        entry.max_timestamp = max(each.batch.max_timestamp for each in batches)
        self._restored.used.live[walked.section.key].add(chunk.info.stream)
        return UnplacedBatches(entry, batches, walked.after, before)

    def _entry(self, section: FoundSection, chunk: FoundChunk) -> IndexEntry:
        """The entry of a chunk in its object, which is not copied. It has no range yet."""
        info = chunk.info
        return IndexEntry(
            start=0,
            end=0,
            kind=WAL,
            length=info.length,
            size=0,
            max_timestamp=info.max_timestamp,
            created_ms=section.created_ms,
            store=self._restored.store,
            key=section.key,
            part=self._restored.part_of(section.key),
            position=section.position + info.position,
            blocks=(section.position + info.blocks_position, info.blocks),
        )

    def _regain(self, stream: int) -> Regained:
        if stream not in self._regained:
            self._regained[stream] = Regained.of(self._restored.tail(stream))
        return self._regained[stream]


def _placed(chunk: FoundChunk, start: int, left_out: Sequence[int] = ()) -> list[PlacedBatch]:
    offset, placed = start, []
    for number, batch in enumerate(chunk.batches):
        if number not in left_out:
            placed.append(PlacedBatch(offset, number, batch))
            offset += batch.count
    return placed


def _in_table(name: FileName, holding: TableHolding | None) -> bool:
    """Whether the copies of a segment's job are in the table."""
    return holding is not None and any(f"-{name.job}-" in key for key in holding.files)
