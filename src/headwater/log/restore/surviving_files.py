"""Reads the files of jobs that are newer than a snapshot, for a restore.

The key of a file states its topic, partition and range, and a file that exists is complete. A
Parquet file notes the chunks that it was made from (``file_notes``). Without the note its records
could be placed twice, once from the chunks, so a file without a note is not placed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING
from zlib import crc32

from headwater.errors import ConfigurationError, CorruptMessage
from headwater.extras import install_command
from headwater.log.formats.file_notes import ChunkNote
from headwater.log.formats.metadata_values import PARQUET, SEGMENT, IndexEntry
from headwater.log.formats.segment import FOOTER, FOOTER_MAGIC, HEADER, MAGIC, VERSION, parse_index
from headwater.log.jobs.jobs import FileName
from headwater.log.read.parquet.source import Offload, footer_bytes
from headwater.log.reclaim.releases import SEGMENT_SUFFIX, object_keys
from headwater.log.restore.placement import KnownRange, PlacedBatch, Ranges
from headwater.log.restore.recovery import FoundBatch, found_batches
from headwater.objects.store import ObjectInfo, ObjectStore

if TYPE_CHECKING:
    from headwater.log.read.parquet.survey import ProducedRun


@dataclass(frozen=True, slots=True)
class SurvivingFile:
    """A file that can be placed."""

    name: FileName
    known: KnownRange
    notes: list[ChunkNote] = field(default_factory=list)


class FileSurvey:
    """Reads files, those of Parquet off the event loop."""

    def __init__(self, objects: ObjectStore, offload: Offload) -> None:
        self._objects = objects
        self._offload = offload
        self._parquet: ModuleType | None = None

    async def read(
        self, info: ObjectInfo, name: FileName, known_to: int, *, live: bool
    ) -> SurvivingFile:
        """Read a file, with the batches of producers from offset ``known_to`` on.

        Raises ``CorruptMessage`` or ``ObjectNotFound`` if it cannot be placed, and
        ``ConfigurationError`` if it is a Parquet file and the extra ``table`` is missing.
        """
        if name.suffix == SEGMENT_SUFFIX:
            return await self._read_segment(info, name)
        return await self._read_parquet(info, name, known_to, live=live)

    async def _read_segment(self, info: ObjectInfo, name: FileName) -> SurvivingFile:
        parse_index(await self._objects.get(object_keys(SEGMENT, info.key)[1]))
        data = await self._objects.get(info.key)
        batches = list(_segment_batches(data, info.key, name))
        entry = self._entry(info, name, SEGMENT)
        entry.max_timestamp = max((each.batch.max_timestamp for each in batches), default=-1)
        return SurvivingFile(name, KnownRange(entry, batches, info.size))

    async def _read_parquet(
        self, info: ObjectInfo, name: FileName, known_to: int, *, live: bool
    ) -> SurvivingFile:
        entry = self._entry(info, name, PARQUET)
        tail = await footer_bytes(self._objects, entry)
        parquet = await self._module()
        survey = await self._offload(lambda: parquet.survey(tail, entry))
        if survey.notes is None:
            raise CorruptMessage(f"{info.key} has no note of its chunks")
        entry.max_timestamp = survey.max_timestamp
        batches: list[PlacedBatch] = []
        for extent in survey.footer.extents:
            if extent.row_group < 0 or extent.end <= known_to:
                continue
            data = await self._objects.get_range(info.key, extent.position, extent.length)
            runs = await self._offload(
                lambda extent=extent, data=data: list(  # type: ignore[misc]
                    parquet.produced_runs(survey.footer, extent, data)
                )
            )
            batches += [_batch(run) for run in runs if run.last >= known_to]
        noted = Ranges()
        for note in survey.notes.chunks:
            noted.add(note.start, note.end)
        has_chunks = noted.cover(name.start, name.end)
        known = KnownRange(entry, batches, survey.notes.size, live=live, has_chunks=has_chunks)
        return SurvivingFile(name, known, survey.notes.chunks)

    def _entry(self, info: ObjectInfo, name: FileName, kind: int) -> IndexEntry:
        return IndexEntry(
            start=name.start,
            end=name.end,
            kind=kind,
            length=info.size,
            size=0,
            max_timestamp=-1,
            created_ms=info.modified_ms,
            store=self._objects.id,
            key=info.key,
        )

    async def _module(self) -> ModuleType:
        if self._parquet is None:
            try:
                self._parquet = await self._offload(_import_survey)
            except ImportError as error:
                raise ConfigurationError(
                    f"a restore with files of tables needs the extra `table` ({error}): "
                    f"{install_command('table')} adds it"
                ) from error
        return self._parquet


def _batch(run: "ProducedRun") -> PlacedBatch:
    count = run.last - run.first + 1
    found = FoundBatch(count, 0, run.producer_id, run.epoch, run.base_sequence, -1)
    return PlacedBatch(run.first, 0, found)


def _segment_batches(data: bytearray, key: str, name: FileName) -> Iterator[PlacedBatch]:
    if len(data) < HEADER.size + FOOTER.size:
        raise CorruptMessage(f"{len(data)} bytes of {key} are too few for a segment")
    magic, version, _flags, start, records, _created, _ = HEADER.unpack_from(data)
    checksum, last, footer_magic = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    chunk = memoryview(data)[HEADER.size : -FOOTER.size]
    if (magic, version, footer_magic) != (MAGIC, VERSION, FOOTER_MAGIC):
        raise CorruptMessage(f"{key} is no segment of version {VERSION}")
    if (start, start + records, last + 1) != (name.start, name.end, name.end):
        raise CorruptMessage(f"{key} does not have the range in its name")
    if crc32(chunk) != checksum:
        raise CorruptMessage(f"the checksum of {key} does not match its bytes")
    offset = start
    for number, batch in enumerate(found_batches(chunk)):
        yield PlacedBatch(offset, number, batch)
        offset += batch.count


def _import_survey() -> ModuleType:
    from headwater.log.read.parquet import survey as parquet_survey

    return parquet_survey
