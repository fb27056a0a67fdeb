"""Checks of streams: their indexes, and the objects that these refer to."""

import asyncio
from typing import Final

from headwater.errors import ObjectNotFound
from headwater.log.formats.metadata_values import (
    INLINE,
    PARQUET,
    SEGMENT,
    WAL,
    IndexEntry,
    ObjectRecord,
)
from headwater.log.reclaim.releases import object_keys
from headwater.meta import keys
from headwater.meta.values import decode
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.fsck.file_checks import file_problem
from headwater.pipeline.fsck.index_checks import StreamCopy, index_problems, inline_problem
from headwater.pipeline.fsck.objects import Inventory, Reference, references, stored_entries
from headwater.pipeline.fsck.report import FindingKind, Report
from headwater.pipeline.metadata_reads import read_layout, read_tail

ATTEMPTS: Final = 8
"""Attempts to read a stream that changes during the check."""
PAUSE_S: Final = 0.05


class StreamChecks:
    """Checks streams one by one and collects their references."""

    def __init__(self, stores: ClusterStores, inventory: Inventory, report: Report) -> None:
        self._stores = stores
        self._meta = stores.meta
        self._inventory = inventory
        self._report = report
        self.used: set[Reference] = set()
        self.rows: dict[str, int] = {}
        """By Parquet file: the number of rows in its footer."""

    async def copy(self, stream: int) -> StreamCopy | None:
        """A consistent copy of a stream's metadata; None if it changes too fast."""
        for _ in range(ATTEMPTS):
            layout = await read_layout(self._meta, stream)
            tail = await read_tail(self._meta, stream)
            entries = []
            async for entry in stored_entries(self._meta, stream):
                if entry.end > tail.high_watermark:
                    break
                if entry.kind == INLINE and (problem := inline_problem(entry)) is not None:
                    self._report.add(FindingKind.DAMAGED, f"stream {stream}", problem)
                entry.data = None
                entries.append(entry)
            if (await read_layout(self._meta, stream)).generation == layout.generation:
                return StreamCopy(layout, tail, entries)
            await asyncio.sleep(PAUSE_S)
        return None

    async def check(self, stream: int, name: str) -> StreamCopy | None:
        """Check a stream and its objects; None if it was deleted."""
        copy = await self.copy(stream)
        if copy is None:
            self._report.add(
                FindingKind.INDEX, name, "it changes too fast to be checked; try again"
            )
            return None
        if copy.tail.deleted:
            return None
        for problem in index_problems(copy):
            self._report.add(FindingKind.INDEX, name, problem)
        for entry in copy.entries:
            self._report.entries += 1
            self.used.update(references(stream, entry))
            if entry.kind in (WAL, PARQUET, SEGMENT):
                await self._check_object(stream, name, entry)
        return copy

    async def _check_object(self, stream: int, name: str, entry: IndexEntry) -> None:
        kind, problem = await self._object_problem(stream, entry)
        # A swap or a trim may have removed the entry and its object.
        if problem is not None and await self.is_current(stream, entry):
            self._report.add(kind, name, f"[{entry.start}, {entry.end}): {problem}")

    async def size(self, key: str) -> int | None:
        """An object's size in bytes; None if it does not exist."""
        return await self._inventory.size(key, 0)

    async def is_current(self, stream: int, entry: IndexEntry) -> bool:
        """Whether the index still has this entry."""
        stored = await self._meta.get(keys.index_entry(0, stream, entry.end))
        there = None if stored is None else decode(IndexEntry, stored.value)
        return there is not None and (there.start, there.key) == (entry.start, entry.key)

    async def _object_problem(
        self, stream: int, entry: IndexEntry
    ) -> tuple[FindingKind, str | None]:
        for key in object_keys(entry.kind, entry.key):
            wanted = entry.position + entry.length if key == entry.key else 0
            size = await self._inventory.size(key, wanted)
            if size is None:
                return FindingKind.MISSING, f"object {key} is missing"
            if size < wanted or (entry.kind != WAL and key == entry.key and size != wanted):
                return (
                    FindingKind.DAMAGED,
                    f"object {key} has {size} bytes, and {wanted} are expected",
                )
            stored = await self._meta.get(keys.object_record(0, key, entry.part))
            if stored is None:
                return FindingKind.UNGUARDED, f"object {key} has no record of part {entry.part}"
            if stream not in decode(ObjectRecord, stored.value).live:
                return (
                    FindingKind.UNGUARDED,
                    f"the record of {key} does not protect it for stream {stream}",
                )
        try:
            problem, rows = await file_problem(entry, self._stores.objects)
        except ObjectNotFound:
            return FindingKind.MISSING, f"object {entry.key} is missing"
        if rows >= 0:
            self._report.files += 1
            self.rows[entry.key] = rows
        return FindingKind.DAMAGED, None if problem is None else f"object {entry.key}: {problem}"
