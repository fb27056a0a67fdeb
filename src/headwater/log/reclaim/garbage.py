"""Deletes objects that nothing refers to. There are three kinds:

- *Released* chunks lost their index entries. After the grace time, unless a pin of their stream
  keeps them, they are cleared from the records of their object, and an object without a live chunk
  is deleted. Clearing is idempotent, so it is repeated safely after a crash. Files of a table come
  here after the table has released them (``releases``).
- *Orphans* were written by an incarnation that died before the commit (``orphans``).
- *Files of lost attempts* were written for a job of the pipeline and are in no manifest. A file
gets
  its record together with the manifest, while its job is CREATED. So if its job is found in another
  state, and after that the file has no record, it will never have one.

Nothing is deleted that a kept metadata snapshot may need (``snapshots``). Nothing is deleted if the
objects belong to another metadata store (``claim``) or the store went back to an earlier state
(``bookmarks``).
"""

import asyncio
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import TypeVar

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError, StoreError, UnknownFormat
from headwater.log.formats.metadata_values import GROWING, Incarnation, ObjectRecord, Release
from headwater.log.jobs.jobs import CREATED, TABLES, Job, job_of_file
from headwater.log.reclaim.orphans import WAL_PREFIX, OrphanCollector, incarnation_of
from headwater.log.reclaim.pins import Pins
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.log.restore.bookmarks import check_bookmark
from headwater.log.restore.claim import check_claim
from headwater.log.restore.snapshots import delete_expired, horizon, listed_snapshots, unlist
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

A = TypeVar("A")
R = TypeVar("R")

CHUNKS_AT_ONCE = 1_000
"""Chunks of releases that are applied together, to save calls."""
AT_ONCE = 16
RECORDS_AT_ONCE = 50
FILES_AT_ONCE = 1000
SNAPSHOT_LIFE_MS = 24 * 60 * 60 * 1000
"""How long a snapshot is kept if no newer one follows, because they are off or fail."""


class GarbageCollector:
    """May run on several brokers at once."""

    def __init__(
        self,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        settings: LogSettings,
        clock: Clock,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._reclaimer = reclaimer
        self._settings = settings
        self._clock = clock
        self._pins = Pins(meta, clock)
        self._orphans = OrphanCollector(
            meta, objects, reclaimer, settings, clock, self._require_own_objects
        )

    async def collect_released(self) -> int:
        """Delete the objects whose last chunk was released long enough ago; returns how many."""
        deleted = 0
        now_ms = self._clock.now_ms()
        await self._pins.remove_expired()
        needed_after = await horizon(self._meta)
        due: dict[str, Release] = {}
        chunks = 0
        async for entry in scan_all(self._meta, keys.releases(0)):
            try:
                release = decode(Release, entry.value)
            except UnknownFormat:
                await self._collect(due)
                raise
            if release.released_ms + self._settings.gc_grace_ms > now_ms:
                continue
            if needed_after is not None and entry.revision > needed_after:
                continue
            due[entry.key] = release
            chunks += len(release.chunks)
            if chunks >= CHUNKS_AT_ONCE:
                deleted += await self._collect(due)
                due, chunks = {}, 0
        return deleted + await self._collect(due)

    async def _collect(self, due: Mapping[str, Release]) -> int:
        """Apply the releases that no pin keeps."""
        # Pins are read after the releases. A reader with a later pin reads an index that no longer
        # has the released entries.
        streams = list({release.stream for release in due.values() if release.stream})
        lows = dict(zip(streams, await _each(self._pins.lowest, streams), strict=True))
        return await self._apply(
            {
                key: release
                for key, release in due.items()
                if (low := lows.get(release.stream)) is None or low >= release.end
            }
        )

    async def collect_snapshots(self) -> int:
        """Delete old snapshots if no new ones are taken; returns how many.

        Otherwise the garbage since the oldest snapshot would be kept for ever.
        """
        before_ms = self._clock.now_ms() - SNAPSHOT_LIFE_MS
        listed = await listed_snapshots(self._meta)
        old = [each.key for each in listed if each.taken_ms <= before_ms]
        if not old:
            return 0
        await self._require_own_objects()
        for key in old:
            logger.warning("Deleting an old snapshot without a newer one", extra={"object": key})
            await delete_expired(self._objects, self._reclaimer, key)
        await unlist(self._meta, old)
        return len(old)

    async def _apply(self, releases: Mapping[str, Release]) -> int:
        by_record: dict[str, set[int]] = {}
        for release in releases.values():
            for object_key, part, stream in release.chunks:
                by_record.setdefault(keys.object_record(0, object_key, part), set()).add(stream)
        await self._clear(by_record)
        named = {chunk[0] for release in releases.values() for chunk in release.chunks}
        found = {each.key: each for each in await _each(self._look_at, list(named))}
        garbage = [each for each in found.values() if each.garbage]
        if garbage:
            await self._require_own_objects()
        failures = dict(await _each(self._try_delete, garbage))
        gone = [each for each in garbage if failures[each.key] is None]
        await self._drop_records(gone)
        await self._drop(
            [
                key
                for key, release in releases.items()
                if not any(found[name].grows or failures.get(name) for name, _, _ in release.chunks)
            ]
        )
        # An object that cannot be deleted does not stop the others, but its error is raised.
        for failure in failures.values():
            if failure is not None:
                raise failure
        return len(gone)

    async def _try_delete(self, found: "_Found") -> tuple[str, StoreError | None]:
        """The object's key, and why it could not be deleted."""
        try:
            await self._reclaimer.delete([found.key], Reason.RELEASED)
        except StoreError as error:
            return found.key, error
        return found.key, None

    async def _drop_records(self, objects: Sequence["_Found"]) -> None:
        """Drop all records of an object together, or it would look like a growing object."""
        some: list[str] = []
        for each in objects:
            if some and len(some) + len(each.records) > RECORDS_AT_ONCE:
                await self._drop(some)
                some = []
            some += each.records
        await self._drop(some)

    async def _look_at(self, object_key: str) -> "_Found":
        # Read first: an incarnation without a key will write no further record.
        writer = await self._writer_of(object_key)
        records = await self._records(object_key)
        if any(record.live for record in records.values()):
            return _Found(object_key, list(records))
        if records and writer is not None and _may_get_parts(object_key, writer, records):
            return _Found(object_key, list(records), grows=True)
        return _Found(object_key, list(records), garbage=True)

    async def _clear(self, by_record: Mapping[str, Collection[int]]) -> None:
        """Remove streams from the live sets of records, some records at a time."""

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            for key, entry in values.items():
                if entry is None:
                    continue
                record = decode(ObjectRecord, entry.value)
                left = [stream for stream in record.live if stream not in by_record[key]]
                if left != record.live:
                    record.live = left
                    writes.put(key, encode(record))
            return writes, None

        for some in self._some_at_a_time(list(by_record)):
            await transact(self._meta, some, decide)

    def _some_at_a_time(self, items: Sequence[str]) -> Iterator[Sequence[str]]:
        """Groups that fit into a transaction of any store, and delay no producer for long."""
        step = min(RECORDS_AT_ONCE, self._meta.limits.operations or RECORDS_AT_ONCE)
        for start in range(0, len(items), step):
            yield items[start : start + step]

    async def _records(self, object_key: str) -> dict[str, ObjectRecord]:
        prefix = f"{keys.objects(0)}{object_key}/"
        found = await self._meta.scan(prefix, prefix_end(prefix))
        return {entry.key: decode(ObjectRecord, entry.value) for entry in found.entries}

    async def _writer_of(self, object_key: str) -> Incarnation | None:
        """The incarnation that wrote an object; None if it is fenced, and for files of tables."""
        if not object_key.startswith(WAL_PREFIX):
            return None
        entry = await self._meta.get(keys.incarnation(0, incarnation_of(object_key)))
        return None if entry is None else decode(Incarnation, entry.value)

    async def _drop(self, gone: Sequence[str]) -> None:
        for some in self._some_at_a_time(gone):

            def decide(_values: Values, some: Sequence[str] = some) -> tuple[Writes, None]:
                writes = Writes()
                for key in some:
                    writes.delete(key)
                return writes, None

            await transact(self._meta, [], decide)

    async def collect_orphans(self, living: Collection[str], *, search: bool = True) -> int:
        """See ``OrphanCollector.collect``."""
        return await self._orphans.collect(living, search=search)

    async def collect_lost_files(self) -> int:
        """Delete files that jobs wrote and no manifest names; returns how many.

        They stay for ``orphan_grace_ms``, in which their own writer may delete them.
        """
        deleted = 0
        old: list[str] = []
        before_ms = self._clock.now_ms() - self._settings.orphan_grace_ms
        async for info in self._objects.list(TABLES):
            if info.modified_ms <= before_ms and job_of_file(info.key) is not None:
                old.append(info.key)
            if len(old) == FILES_AT_ONCE:
                deleted += await self._delete_lost(old)
                old = []
        return deleted + await self._delete_lost(old)

    async def _delete_lost(self, files: Sequence[str]) -> int:
        """Delete the lost files among these, which are in key order."""
        if not files:
            return 0
        writing = {
            job.id
            async for entry in scan_all(self._meta, keys.jobs(0))
            if (job := decode(Job, entry.value)).state == CREATED
        }
        first, last = f"{keys.objects(0)}{files[0]}/", f"{keys.objects(0)}{files[-1]}/"
        recorded = {
            entry.key.removeprefix(keys.objects(0)).rpartition("/")[0]
            async for entry in scan_all(self._meta, first, prefix_end(last))
        }
        lost = [key for key in files if key not in recorded and job_of_file(key) not in writing]
        if lost:  # After the files were listed, as in ``orphans``.
            await self._require_own_objects()
        for key in lost:
            logger.info("Deleting a file that no manifest names", extra={"object": key})
            await self._reclaimer.delete([key], Reason.LOST_FILE)
        return len(lost)

    async def _require_own_objects(self) -> None:
        """Raise ``ConfigurationError`` unless the metadata store is up to date with the objects."""
        stored = await self._meta.get(keys.CLUSTER)
        if stored is None:
            raise ConfigurationError("the metadata store was emptied, so no object is deleted")
        cluster = decode(ClusterRecord, stored.value)
        await check_claim(self._objects, cluster)
        await check_bookmark(self._meta, self._objects, cluster)


@dataclass(frozen=True, slots=True)
class _Found:
    """The state of an object with released chunks; ``records`` are keys."""

    key: str
    records: list[str]
    garbage: bool = False
    grows: bool = False
    """It has no live chunk, but its writer may add some."""


async def _each(work: Callable[[A], Awaitable[R]], items: Sequence[A]) -> list[R]:
    """The results of ``work`` in the order of ``items``, some at a time.

    After a failure the running ones end, no others start, and the failure is raised.
    """
    done: list[R] = []
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        for result in await asyncio.gather(*map(work, some), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            done.append(result)
    return done


def _may_get_parts(
    object_key: str, writer: Incarnation, records: Mapping[str, ObjectRecord]
) -> bool:
    """Whether its living writer may still commit parts of an object."""
    # Only the last part states the total; every part before it states one more than itself.
    parts = max(record.parts for record in records.values())
    return writer.growing == object_key if parts == GROWING else len(records) < parts
