"""Removing objects that nothing refers to.

Three kinds. *Released* objects had chunks whose index entries are gone: once the grace time has
passed and no pin of their stream holds them back, their chunks are cleared from the object's
records, and an object without a live chunk is deleted. Clearing is idempotent, so a crash at any
line is repeated safely. Files of tables come here after their table let them go (``releases``).

*Orphans* were written by an incarnation that died before their commit (``orphans``).

*Files of lost attempts* were written for a job of the pipeline and are in no manifest. A file gets
its record with its manifest, while its job is CREATED; so one without a record whose job is not
CREATED, asked in this order, will never have one.

Nothing is deleted that a kept snapshot of the metadata may need (``snapshots``), and nothing where
the objects are not those of this metadata store (``claim``) or the store went back to an earlier
state (``bookmarks``).
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
"""Of releases that are carried out together: a call for each alone would be most of the time."""
AT_ONCE = 16
RECORDS_AT_ONCE = 50
FILES_AT_ONCE = 1000
SNAPSHOT_LIFE_MS = 24 * 60 * 60 * 1000
"""How long a snapshot is kept if none follow it, because they are off or keep failing."""


class GarbageCollector:
    """Runs on any broker; several at once do no harm."""

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
        """Carry out those releases, by their keys, that no pin holds back."""
        # Asked after the releases were found: a reader whose pin comes later has read an index
        # that was without them.
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
        """Delete old snapshots, if none are taken any more or all fail; returns how many.

        Each holds back all garbage that came after it, which would be kept for ever.
        """
        before_ms = self._clock.now_ms() - SNAPSHOT_LIFE_MS
        listed = await listed_snapshots(self._meta)
        old = [each.key for each in listed if each.taken_ms <= before_ms]
        if not old:
            return 0
        await self._require_own_objects()
        for key in old:
            logger.warning("deleting %s: no snapshots were taken since", key)
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
        # What could not be deleted holds up nothing but itself, and is told of.
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
        """Those of an object go together: without some of them it looks like one that grows."""
        some: list[str] = []
        for each in objects:
            if some and len(some) + len(each.records) > RECORDS_AT_ONCE:
                await self._drop(some)
                some = []
            some += each.records
        await self._drop(some)

    async def _look_at(self, object_key: str) -> "_Found":
        # Asked first: what an incarnation without a key has recorded is all that it will.
        writer = await self._writer_of(object_key)
        records = await self._records(object_key)
        if any(record.live for record in records.values()):
            return _Found(object_key, list(records))
        if records and writer is not None and _may_get_parts(object_key, writer, records):
            return _Found(object_key, list(records), grows=True)
        return _Found(object_key, list(records), garbage=True)

    async def _clear(self, by_record: Mapping[str, Collection[int]]) -> None:
        """Take streams out of the records' live sets, some records at a time."""

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
        """Few enough for any store's transaction, and for no producer to wait long behind it."""
        step = min(RECORDS_AT_ONCE, self._meta.limits.operations or RECORDS_AT_ONCE)
        for start in range(0, len(items), step):
            yield items[start : start + step]

    async def _records(self, object_key: str) -> dict[str, ObjectRecord]:
        prefix = f"{keys.objects(0)}{object_key}/"
        found = await self._meta.scan(prefix, prefix_end(prefix))
        return {entry.key: decode(ObjectRecord, entry.value) for entry in found.entries}

    async def _writer_of(self, object_key: str) -> Incarnation | None:
        """The incarnation that wrote an object; None once it is fenced, and for tables' files."""
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

        They are left alone for ``orphan_grace_ms``: their own writer deletes what it knows of.
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
        """Delete those of some files, in key order, that are lost."""
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
        if lost:  # the files were seen first, as in ``orphans``
            await self._require_own_objects()
        for key in lost:
            logger.info("deleting %s, which no manifest names", key)
            await self._reclaimer.delete([key], Reason.LOST_FILE)
        return len(lost)

    async def _require_own_objects(self) -> None:
        """Raise ``ConfigurationError`` if this metadata store is not the one that is up to date
        with these objects.
        """
        stored = await self._meta.get(keys.CLUSTER)
        if stored is None:
            raise ConfigurationError("the metadata store was emptied: nothing is deleted")
        cluster = decode(ClusterRecord, stored.value)
        await check_claim(self._objects, cluster)
        await check_bookmark(self._meta, self._objects, cluster)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of an object that something was released of; ``records`` are keys."""

    key: str
    records: list[str]
    garbage: bool = False
    grows: bool = False
    """Without a live chunk, but its writer may add to it."""


async def _each(work: Callable[[A], Awaitable[R]], items: Sequence[A]) -> list[R]:
    """The results of ``work`` in the order of ``items``, some at a time.

    The first failure is raised when those beside it have ended; what follows is not begun.
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
    # How many there are turns out with the last: every part before it knows of one more.
    parts = max(record.parts for record in records.values())
    return writer.growing == object_key if parts == GROWING else len(records) < parts
