"""The objects of a cluster and their references, for a check.

Brokers may run during a check, so a problem is checked again before it is reported. References move
in a fixed order, and are read in that order: the index, the release lists, the object records.
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
"""Part of the keys of table metadata, which Iceberg manages."""

Reference = tuple[str, int, int]
"""(object key, part, stream), as in object records and releases."""


@dataclass(slots=True)
class Inventory:
    """Every object of the log and of topics' tables, listed before the index is read."""

    store: ObjectStore
    objects: dict[str, ObjectInfo] = field(default_factory=dict)

    async def read(self) -> None:
        """List the objects. Users' own tables, under ``warehouse/``, are left out."""
        for prefix in (WAL_PREFIX, TABLES):
            async for info in self.store.list(prefix):
                self.objects[info.key] = info

    async def size(self, key: str, at_least: int) -> int | None:
        """An object's size in bytes. Looks again if it was missing or shorter than ``at_least``."""
        known = self.objects.get(key)
        if known is None or known.size < at_least:
            known = await self._find(key)
        return None if known is None else known.size

    async def still_exists(self, key: str) -> bool:
        """Whether a listed object still exists."""
        return await self._find(key) is not None

    async def _find(self, key: str) -> ObjectInfo | None:
        async for info in self.store.list(key):
            if info.key == key:
                return info
        return None


def references(stream: int, entry: IndexEntry) -> Iterator[Reference]:
    """The references of an index entry."""
    if entry.kind not in OBJECTLESS:
        for key in object_keys(entry.kind, entry.key):
            yield key, entry.part, stream


def job_references(job: Job) -> Iterator[Reference]:
    """The references of a job's manifest until its files are in the index."""
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
    """The references on the release lists, including that of tables."""
    found: set[Reference] = set()
    for prefix in (keys.releases(0), keys.table_releases(0)):
        async for entry in scan_all(meta, prefix, page=PAGE):
            found.update(decode(Release, entry.value).chunks)
    return found


async def records(meta: MetadataStore) -> AsyncIterator[tuple[str, int, ObjectRecord]]:
    """(object key, part, record) of every committed object."""
    async for entry in scan_all(meta, keys.objects(0), page=PAGE):
        key, _, part = entry.key.removeprefix(keys.objects(0)).rpartition("/")
        yield key, int(part), decode(ObjectRecord, entry.value)


async def is_leaked(meta: MetadataStore, wanted: Reference) -> bool:
    """Whether an object record keeps a chunk without any reference."""
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
    """Whether an object without a record is an orphan, and the reason.

    ``writing`` are the ids of jobs that may still fix a manifest. An incarnation whose key exists
    may still commit its objects.
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
