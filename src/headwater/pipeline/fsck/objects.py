"""The objects of a cluster and what refers to them, for a check.

A cluster is checked while it works. So what looks wrong is looked at once more before it is
reported, in an order in which every reference moves: first the index, then what left it, then
the record that keeps the object.
"""

from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass, field

from headwater.log.formats.metadata_values import OBJECTLESS, IndexEntry, ObjectRecord, Release
from headwater.log.jobs.jobs import INDEX_SWAPPED, TABLES, Job, job_of_file
from headwater.log.reclaim.releases import object_keys
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.objects.store import ObjectInfo, ObjectStore

PAGE = 500
WAL_PREFIX = "wal/"
METADATA = "/metadata/"
"""In the keys of tables' own metadata, which Iceberg keeps in order."""

Reference = tuple[str, int, int]
"""(object key, part, stream), as object records and releases have it."""


@dataclass(slots=True)
class Inventory:
    """Every object of the log and of its tables, as listed before the index was read."""

    store: ObjectStore
    objects: dict[str, ObjectInfo] = field(default_factory=dict)

    async def read(self) -> None:
        """List the objects. Users' own tables, under ``warehouse/``, are none of ours."""
        for prefix in (WAL_PREFIX, TABLES):
            async for info in self.store.list(prefix):
                self.objects[info.key] = info

    async def size(self, key: str, at_least: int) -> int | None:
        """An object's bytes; looked for again where it was absent or shorter."""
        known = self.objects.get(key)
        if known is None or known.size < at_least:
            known = await self._find(key)
        return None if known is None else known.size

    async def is_there(self, key: str) -> bool:
        """Whether an object that was listed is there still."""
        return await self._find(key) is not None

    async def _find(self, key: str) -> ObjectInfo | None:
        async for info in self.store.list(key):
            if info.key == key:
                return info
        return None


def references(stream: int, entry: IndexEntry) -> Iterator[Reference]:
    """What an index entry refers to."""
    if entry.kind not in OBJECTLESS:
        for key in object_keys(entry.kind, entry.key):
            yield key, entry.part, stream


def job_references(job: Job) -> Iterator[Reference]:
    """What a job's manifest keeps until its files are in the index."""
    if job.state != INDEX_SWAPPED:
        for file in job.files:
            for key in object_keys(file.kind, file.key):
                yield key, 0, job.stream
    for file in job.copies:
        yield file.key, 0, job.stream


async def stored_entries(meta: MetadataStore, stream: int) -> AsyncIterator[IndexEntry]:
    async for entry in scan_all(meta, keys.index(0, stream), page=PAGE):
        yield decode(IndexEntry, entry.value)


async def released(meta: MetadataStore) -> set[Reference]:
    """What waits on the release lists, that of tables included."""
    found: set[Reference] = set()
    for prefix in (keys.releases(0), keys.table_releases(0)):
        async for entry in scan_all(meta, prefix, page=PAGE):
            found.update(decode(Release, entry.value).chunks)
    return found


async def records(meta: MetadataStore) -> AsyncIterator[tuple[str, int, ObjectRecord]]:
    """(object key, part, record) of every object that was committed."""
    async for entry in scan_all(meta, keys.objects(0), page=PAGE):
        key, _, part = entry.key.removeprefix(keys.objects(0)).rpartition("/")
        yield key, int(part), decode(ObjectRecord, entry.value)


async def is_leaked(meta: MetadataStore, wanted: Reference) -> bool:
    """Whether a record keeps a chunk to which nothing refers any more."""
    key, part, stream = wanted
    async for entry in stored_entries(meta, stream):
        if wanted in references(stream, entry):
            return False
    stored = await meta.get(keys.job(0, stream))
    if stored is not None and wanted in job_references(decode(Job, stored.value)):
        return False
    if wanted in await released(meta):
        return False
    again = await meta.get(keys.object_record(0, key, part))
    return again is not None and stream in decode(ObjectRecord, again.value).live


async def orphan_reason(
    meta: MetadataStore, key: str, writing: Collection[str]
) -> tuple[bool, str]:
    """Whether an object without a record is an orphan, and why it is here.

    ``writing`` are the jobs that may still fix a manifest. An incarnation that has its key may
    still commit what it wrote.
    """
    if key.startswith(WAL_PREFIX):
        incarnation = key.split("/")[1]
        if await meta.get(keys.incarnation(0, incarnation)) is not None:
            return False, "its broker may still commit it"
        return True, "its broker died before it was committed"
    job = job_of_file(key)
    if job is not None and job in writing:
        return False, "its job may still name it"
    return True, "no manifest names it"
