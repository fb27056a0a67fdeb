"""Snapshots of the metadata in the object store, so that a cluster survives the loss of its
metadata store.

Any broker may take one; housekeeping chooses one broker. The metadata store lists the kept
snapshots.

Invariants:

- A snapshot is the store at one revision, without ephemeral keys.
- Every object that the index of a kept snapshot names exists, and so does every WAL object that was
  committed after it. Garbage collection keeps objects that were released after the oldest kept
  snapshot (``horizon``). A snapshot is listed as pending before its scan begins, so objects that
  are released during the scan are kept, too. Revisions are compared, not clocks.
- At most one part of a snapshot is in memory (``snapshot_file``).
- A replaced snapshot is removed from the list before its object is deleted. A snapshot that expires
  because no newer ones are taken is removed from the list after that: otherwise a restore could
  find it, but not all objects that it names.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord, check_same_cluster
from headwater.errors import CorruptMessage
from headwater.log.formats.snapshot_file import (
    SUFFIX,
    Item,
    SnapshotDescription,
    decode_part,
    decode_snapshot,
    encode_part,
    encode_snapshot,
    part_key,
    snapshot_of,
)
from headwater.log.read.parquet.source import Offload
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.log.restore.bookmarks import add_bookmark, check_bookmark
from headwater.log.restore.claim import check_not_restored
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import Value, decode, encode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

PREFIX: Final = "snapshots/"
PAGE: Final = 250
PART_BYTES: Final = 8 * 2**20
"""Bytes of keys and values of one part object."""
EVERYTHING: Final = ("!", "~")
"""All keys are readable and begin with a letter."""
_TRANSIENT: Final = (keys.BROKERS, keys.COORDINATORS, keys.DRAINS, keys.SNAPSHOTS)
"""Keys of running processes, and the list of snapshots itself: they are in no snapshot."""


class Snapshot(msgspec.Struct, array_like=True):
    """One snapshot of this store."""

    key: str
    revision: int
    """Its revision; of a pending snapshot, a revision that is not after it."""
    taken_ms: int
    pending: bool


class Snapshots(Value):
    """The complete snapshots that are kept, oldest first, and the snapshots being taken."""

    listed: list[Snapshot] = msgspec.field(default_factory=list)


async def listed_snapshots(meta: MetadataStore) -> list[Snapshot]:
    """The snapshots that keep garbage: complete ones and those being taken."""
    stored = await meta.get(keys.SNAPSHOTS)
    return [] if stored is None else decode(Snapshots, stored.value).listed


async def kept_snapshots(meta: MetadataStore) -> list[Snapshot]:
    """The snapshots that are complete, oldest first."""
    return [each for each in await listed_snapshots(meta) if not each.pending]


async def horizon(meta: MetadataStore) -> int | None:
    """A snapshot may need objects that were released after this revision; None if there is none."""
    return min((each.revision for each in await listed_snapshots(meta)), default=None)


async def unlist(meta: MetadataStore, gone: Collection[str]) -> None:
    """Remove snapshots from the list, so that they keep no garbage."""

    def decide(values: Values) -> tuple[Writes, None]:
        writes, known = Writes(), _known(values)
        known.listed = [each for each in known.listed if each.key not in gone]
        writes.put(keys.SNAPSHOTS, encode(known))
        return writes, None

    await transact(meta, [keys.SNAPSHOTS], decide)


def snapshot_key(epoch: int, number: int, incarnation: str) -> str:
    """Keys sort by epoch and then as they were begun.

    The number is the time in ms, or the last number plus one if a clock is behind.
    """
    return f"{PREFIX}{epoch:010d}/{number:015d}-{incarnation}{SUFFIX}"


def _number(key: str) -> int:
    return int(key.rpartition("/")[2].partition("-")[0])


class Snapshotter:
    """Takes snapshots. Several brokers may do it at once; the last one's is kept."""

    def __init__(
        self,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        clock: Clock,
        *,
        incarnation: Callable[[], str],
        kept: int,
        offload: Offload,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._reclaimer = reclaimer
        self._clock = clock
        self._incarnation = incarnation
        self._kept = kept
        self._offload = offload

    async def take(self) -> SnapshotDescription | None:
        """Take a snapshot, and delete the oldest ones.

        Returns None if another broker has begun one since, or the cluster's record is gone. Raises
        ``ConfigurationError`` if the objects are not those of this metadata store, or it went back
        to an earlier state.
        """
        stored = await self._meta.get(keys.CLUSTER)
        if stored is None:
            return None
        cluster = decode(ClusterRecord, stored.value)
        if cluster.restoring:
            return None
        await check_not_restored(self._objects, cluster)
        await check_bookmark(self._meta, self._objects, cluster)
        taken_ms, name = self._clock.now_ms(), self._incarnation()
        before = (await self._meta.scan(keys.SNAPSHOTS, keys.SNAPSHOTS, limit=1)).revision
        own = await self._list(cluster, taken_ms, name, before)
        copied = await self._copy(own.key)
        # A copy of a store that was emptied meanwhile would be the newest snapshot for a restore.
        check_same_cluster(await self._meta.get(keys.CLUSTER), cluster)
        description = SnapshotDescription(
            cluster=cluster.id,
            epoch=cluster.epoch,
            level=cluster.level,
            revision=copied.revision,
            taken_ms=taken_ms,
            entries=copied.entries,
            bytes=copied.bytes,
            incarnation=name,
            parts=copied.parts,
        )
        buffers = await self._offload(lambda: encode_snapshot(description, copied.rest))
        await self._objects.put(own.key, buffers)
        kept = await self._complete(cluster, own.key, copied.revision)
        await add_bookmark(self._meta, self._objects, self._reclaimer, cluster)
        await self._delete_others(kept, cluster)
        if own.key not in kept:
            return None
        logger.info(
            "Took a snapshot of the metadata",
            extra={
                "keys": copied.entries,
                "revision": copied.revision,
                "bytes": copied.bytes,
                "object": own.key,
            },
        )
        return description

    async def _copy(self, key: str) -> "_Copied":
        """Write all entries but the last ones as parts; at most one part is in memory."""
        copied = _Copied()
        size = 0
        async with aclosing(self._meta.scan_pages(*EVERYTHING, size=PAGE)) as pages:
            async for page in pages:
                copied.revision = page.revision
                for entry in page.entries:
                    if entry.key.startswith(_TRANSIENT):
                        continue
                    copied.rest.append((entry.key, entry.value))
                    copied.entries += 1
                    size += len(entry.key) + len(entry.value)
                if size >= PART_BYTES:
                    await self._put_part(key, copied)
                    copied.bytes += size
                    size = 0
        copied.bytes += size
        return copied

    async def _put_part(self, key: str, copied: "_Copied") -> None:
        items, copied.rest = copied.rest, []
        buffers = await self._offload(lambda: encode_part(items))
        await self._objects.put(part_key(key, copied.parts), buffers)
        copied.parts += 1

    async def _list(
        self, cluster: ClusterRecord, taken_ms: int, name: str, before: int
    ) -> Snapshot:
        def decide(values: Values) -> tuple[Writes, Snapshot]:
            check_same_cluster(values[keys.CLUSTER], cluster)
            writes, known = Writes(), _known(values)
            last = max((_number(each.key) for each in known.listed), default=0)
            key = snapshot_key(cluster.epoch, max(taken_ms, last + 1), name)
            own = Snapshot(key, before, taken_ms, pending=True)
            # A pending snapshot of another broker is abandoned: it is no longer in the list.
            kept = [each for each in known.listed if not each.pending]
            known.listed = [*kept, own]
            writes.put(keys.SNAPSHOTS, encode(known))
            return writes, own

        return await transact(self._meta, [keys.CLUSTER, keys.SNAPSHOTS], decide)

    async def _complete(self, cluster: ClusterRecord, key: str, revision: int) -> list[str]:
        def decide(values: Values) -> tuple[Writes, list[str]]:
            check_same_cluster(values[keys.CLUSTER], cluster)
            writes, known = Writes(), _known(values)
            for each in known.listed:
                if each.key == key:
                    each.pending, each.revision = False, revision
            complete = [each for each in known.listed if not each.pending]
            pending = [each for each in known.listed if each.pending]
            known.listed = [*complete[-self._kept :], *pending]
            writes.put(keys.SNAPSHOTS, encode(known))
            return writes, [each.key for each in known.listed]

        return await transact(self._meta, [keys.CLUSTER, keys.SNAPSHOTS], decide)

    async def _delete_others(self, kept: Sequence[str], cluster: ClusterRecord) -> None:
        """Delete unlisted snapshots: older and abandoned ones, and those from before a restore."""
        newest = max(kept, default="")
        gone = [
            info.key
            async for info in self._objects.list(PREFIX)
            if (of := snapshot_of(info.key)) not in kept and of < newest
        ]
        if gone:  # Listed before this check, so snapshots of a new restore are not among them.
            await check_not_restored(self._objects, cluster)
        # A snapshot is deleted before its parts, so a restore finds it whole or not at all.
        await self._reclaimer.delete(gone, Reason.SNAPSHOT_REPLACED)


@dataclass(slots=True)
class _Copied:
    """The progress of a copy; ``rest`` are the entries that are in no part yet."""

    revision: int = 0
    entries: int = 0
    bytes: int = 0
    parts: int = 0
    rest: list[Item] = field(default_factory=list)


async def read_snapshot(objects: ObjectStore, key: str) -> tuple[SnapshotDescription, list[Item]]:
    """A snapshot with all of its entries.

    Raises ``CorruptMessage`` if it is damaged or incomplete, ``UnknownFormat`` for a newer version.
    """
    description, last = decode_snapshot(await objects.get(key))
    items: list[Item] = []
    for number in range(description.parts):
        items += decode_part(await objects.get(part_key(key, number)))
    items += last
    if len(items) != description.entries:
        raise CorruptMessage(f"{key} has {len(items)} of {description.entries} entries")
    return description, items


async def delete_expired(objects: ObjectStore, reclaimer: Reclaimer, key: str) -> None:
    """Delete a snapshot and its parts; an absent object is no error."""
    await reclaimer.delete([key], Reason.SNAPSHOT_EXPIRED)
    async for info in objects.list(part_key(key, 0).rpartition("/")[0] + "/"):
        await reclaimer.delete([info.key], Reason.SNAPSHOT_EXPIRED)


def _known(values: Values) -> Snapshots:
    stored = values[keys.SNAPSHOTS]
    return Snapshots() if stored is None else decode(Snapshots, stored.value)
