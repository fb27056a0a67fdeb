"""Lists chunks and files that left the offset index and wait for their deletion.

A transaction that removes index entries also notes what they named:

- Chunks of WAL objects and segment files go on the *release list*. The garbage collector applies it
  after a grace time, unless a pin keeps them (``garbage``).
- Parquet files are also data files of a table, and kept snapshots of the table may name them. They
go
  on the *table release list*, which no broker applies. The pipeline's table maintenance waits until
  no kept snapshot of the table names a file, and then moves it to the release list in one
  transaction. So a file is deleted after both the log and the table have released it.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from headwater.clock import Clock
from headwater.log.formats.metadata_values import (
    ADOPTED,
    OBJECTLESS,
    PARQUET,
    SEGMENT,
    IndexEntry,
    ObjectRecord,
    Release,
)
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode

SEGMENT_SUFFIX = ".kfs"
INDEX_SUFFIX = ".index"


def object_keys(kind: int, key: str) -> list[str]:
    """The objects that an entry of this kind needs."""
    if kind == SEGMENT:
        return [key, f"{key.removesuffix(SEGMENT_SUFFIX)}{INDEX_SUFFIX}"]
    return [key]


def release(
    writes: Writes, stream: int, gone: Sequence[IndexEntry], generation: int, now_ms: int
) -> None:
    """Note the chunks and files that lose their index entry in this transaction.

    ``generation`` is the layout's new generation, which makes the key unique.
    """
    suffix = f"{stream:020d}/{generation:012d}"
    plain = [entry for entry in gone if entry.kind not in (*OBJECTLESS, PARQUET)]
    tabled = [entry for entry in gone if entry.kind == PARQUET]
    for prefix, entries in ((keys.releases(0), plain), (keys.table_releases(0), tabled)):
        if entries:
            chunks = [
                (key, entry.part, stream)
                for entry in entries
                for key in object_keys(entry.kind, entry.key)
            ]
            end = max(entry.end for entry in entries)
            note = Release(chunks=chunks, released_ms=now_ms, stream=stream, end=end)
            writes.put(f"{prefix}{suffix}", encode(note))


@dataclass(frozen=True, slots=True)
class TableRelease:
    """Files of one stream that left the log; ``key`` is the key of the note."""

    key: str
    stream: int
    files: list[str]
    released_ms: int


class TableReleases:
    """The table release list, for the pipeline's table maintenance."""

    def __init__(self, meta: MetadataStore, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock

    async def waiting(self) -> AsyncIterator[TableRelease]:
        """Every note, also of deleted topics."""
        async for entry in scan_all(self._meta, keys.table_releases(0)):
            noted = decode(Release, entry.value)
            files = [file for file, _, _ in noted.chunks]
            yield TableRelease(entry.key, noted.stream, files, noted.released_ms)

    async def note(self, stream: int, files: Sequence[str]) -> None:
        """Put files on the list: copies in a table whose records are no longer in the log.

        Files without a record, which were deleted or never committed, are ignored.
        """
        chunks = []
        for file in files:
            stored = await self._meta.get(keys.object_record(0, file, 0))
            live = [] if stored is None else decode(ObjectRecord, stored.value).live
            # A file that a restore could not place is kept, even if its table is dropped.
            chunks += [(file, 0, owner) for owner in live if owner != ADOPTED]
        if not chunks:
            return
        # The key is a hash of the files, so that noting them again changes nothing.
        name = sha256("\n".join(file for file, _, _ in chunks).encode()).hexdigest()[:16]
        key = f"{keys.table_releases(0)}{stream:020d}/copies-{name}"
        noted = encode(Release(chunks=chunks, released_ms=self._clock.now_ms(), stream=stream))

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            if values[key] is None:
                writes.put(key, noted)
            return writes, None

        await transact(self._meta, [key], decide)

    async def let_go(self, noted: TableRelease, files: Collection[str]) -> None:
        """Release files that no kept snapshot of the table names, now or later."""
        suffix = noted.key.removeprefix(keys.table_releases(0))

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            there = values[noted.key]
            if there is None:
                return writes, None
            waiting = decode(Release, there.value)
            free = [chunk for chunk in waiting.chunks if chunk[0] in files]
            kept = [chunk for chunk in waiting.chunks if chunk[0] not in files]
            if not free:
                return writes, None
            # Each time fewer files are left, so their number makes the key unique.
            moved = Release(
                chunks=free,
                released_ms=self._clock.now_ms(),
                stream=waiting.stream,
                end=waiting.end,
            )
            writes.put(f"{keys.releases(0)}{suffix}/table-{len(kept):04d}", encode(moved))
            if kept:
                waiting.chunks = kept
                writes.put(noted.key, encode(waiting))
            else:
                writes.delete(noted.key)
            return writes, None

        await transact(self._meta, [noted.key], decide)
