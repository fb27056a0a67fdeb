"""Snapshots of the metadata in the object store, so that a cluster outlives its metadata store.

Any broker may take one; housekeeping has one do it. The store itself lists those that are kept.

Invariants:

- A snapshot is the store at one revision, its ephemeral keys apart.
- Every object that a kept snapshot's index refers to exists, and every WAL object that was
  committed after it does too. Garbage collection asks ``horizon`` and leaves alone what was
  released after the oldest kept snapshot; a snapshot is listed, as pending, before its scan
  begins, so what is released while it is taken is left alone too. Comparisons are between
  revisions, not clocks.
- No more than a part of a snapshot is in memory (``snapshot_file``).
- A snapshot that newer ones replace leaves the list before its object is deleted. One that is let
  go because none are taken any more leaves it after that: a restore would find it, and not all
  that it refers to.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord
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
"""Keys and values that are held at once; more of them make another object."""
EVERYTHING: Final = ("!", "~")
"""All keys are readable and begin with a letter."""
_PASSING: Final = (keys.BROKERS, keys.COORDINATORS, keys.DRAINS, keys.SNAPSHOTS)
"""What belongs to processes that live now, and the list of snapshots itself."""


class Snapshot(msgspec.Struct, array_like=True):
    """One snapshot of this store."""

    key: str
    revision: int
    """What it shows; of a pending one, a revision that is not after it."""
    taken_ms: int
    pending: bool


class Snapshots(Value):
    """The snapshots that are kept, oldest first, and those that are being taken."""

    listed: list[Snapshot] = msgspec.field(default_factory=list)


async def listed_snapshots(meta: MetadataStore) -> list[Snapshot]:
    """The snapshots that hold garbage back: those that are kept, and those being taken."""
    stored = await meta.get(keys.SNAPSHOTS)
    return [] if stored is None else decode(Snapshots, stored.value).listed


async def kept_snapshots(meta: MetadataStore) -> list[Snapshot]:
    """The snapshots that are complete, oldest first."""
    return [each for each in await listed_snapshots(meta) if not each.pending]


async def horizon(meta: MetadataStore) -> int | None:
    """What was released after this revision may be needed by a snapshot; None: there is none."""
    return min((each.revision for each in await listed_snapshots(meta)), default=None)


async def unlist(meta: MetadataStore, gone: Collection[str]) -> None:
    """Let go of snapshots, by their keys, and of what they hold back."""

    def decide(values: Values) -> tuple[Writes, None]:
        writes, known = Writes(), _known(values)
        known.listed = [each for each in known.listed if each.key not in gone]
        writes.put(keys.SNAPSHOTS, encode(known))
        return writes, None

    await transact(meta, [keys.SNAPSHOTS], decide)


def snapshot_key(epoch: int, number: int, incarnation: str) -> str:
    """Keys sort by epoch and then as they were begun.

    The number is the time, or the next one after the last where a clock is behind another.
    """
    return f"{PREFIX}{epoch:010d}/{number:015d}-{incarnation}{SUFFIX}"


def _number(key: str) -> int:
    return int(key.rpartition("/")[2].partition("-")[0])


class Snapshotter:
    """Takes snapshots; several at once do no harm, the last one's is kept."""

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
        """Take one, and drop those beyond the number that is kept.

        None where another broker has begun one since, or the cluster's record is gone. Raises
        ``ConfigurationError`` where the objects are not those of this metadata store, or it went
        back to an earlier state.
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
        own = await self._list(cluster.epoch, taken_ms, name, before)
        copied = await self._copy(own.key)
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
        kept = await self._complete(own.key, copied.revision)
        await add_bookmark(self._meta, self._objects, self._reclaimer, cluster)
        await self._delete_others(kept, cluster)
        if own.key not in kept:
            return None
        logger.info(
            "took a snapshot of the metadata: %d keys at revision %d, %d bytes in %s",
            copied.entries, copied.revision, copied.bytes, own.key,
        )  # fmt: skip
        return description

    async def _copy(self, key: str) -> "_Copied":
        """Write the entries as parts, all but the last ones; no more than a part is in memory."""
        copied = _Copied()
        size = 0
        async with aclosing(self._meta.scan_pages(*EVERYTHING, size=PAGE)) as pages:
            async for page in pages:
                copied.revision = page.revision
                for entry in page.entries:
                    if entry.key.startswith(_PASSING):
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

    async def _list(self, epoch: int, taken_ms: int, name: str, before: int) -> Snapshot:
        def decide(values: Values) -> tuple[Writes, Snapshot]:
            writes, known = Writes(), _known(values)
            last = max((_number(each.key) for each in known.listed), default=0)
            key = snapshot_key(epoch, max(taken_ms, last + 1), name)
            own = Snapshot(key, before, taken_ms, pending=True)
            # A pending one of another is given up: it finds that it is no longer listed.
            kept = [each for each in known.listed if not each.pending]
            known.listed = [*kept, own]
            writes.put(keys.SNAPSHOTS, encode(known))
            return writes, own

        return await transact(self._meta, [keys.SNAPSHOTS], decide)

    async def _complete(self, key: str, revision: int) -> list[str]:
        def decide(values: Values) -> tuple[Writes, list[str]]:
            writes, known = Writes(), _known(values)
            for each in known.listed:
                if each.key == key:
                    each.pending, each.revision = False, revision
            complete = [each for each in known.listed if not each.pending]
            pending = [each for each in known.listed if each.pending]
            known.listed = [*complete[-self._kept :], *pending]
            writes.put(keys.SNAPSHOTS, encode(known))
            return writes, [each.key for each in known.listed]

        return await transact(self._meta, [keys.SNAPSHOTS], decide)

    async def _delete_others(self, kept: Sequence[str], cluster: ClusterRecord) -> None:
        """Delete what is not listed: older ones, those given up, those from before a restore."""
        newest = max(kept, default="")
        gone = [
            info.key
            async for info in self._objects.list(PREFIX)
            if (of := snapshot_of(info.key)) not in kept and of < newest
        ]
        if gone:  # they were seen first: those of a restore that has begun since are not among them
            await check_not_restored(self._objects, cluster)
        # A snapshot goes before its parts: a restore finds it whole or not at all.
        await self._reclaimer.delete(gone, Reason.SNAPSHOT_REPLACED)


@dataclass(slots=True)
class _Copied:
    """What of the store was copied so far; ``rest`` is in no part yet."""

    revision: int = 0
    entries: int = 0
    bytes: int = 0
    parts: int = 0
    rest: list[Item] = field(default_factory=list)


async def read_snapshot(objects: ObjectStore, key: str) -> tuple[SnapshotDescription, list[Item]]:
    """A snapshot with all of its entries.

    Raises ``CorruptMessage`` if it is not whole, ``UnknownFormat`` for a newer version.
    """
    description, last = decode_snapshot(await objects.get(key))
    items: list[Item] = []
    for number in range(description.parts):
        items += decode_part(await objects.get(part_key(key, number)))
    items += last
    if len(items) != description.entries:
        raise CorruptMessage(f"{key} has {len(items)} entries of {description.entries}")
    return description, items


async def delete_expired(objects: ObjectStore, reclaimer: Reclaimer, key: str) -> None:
    """Delete a snapshot that is too old, and its parts; what is absent is no error."""
    await reclaimer.delete([key], Reason.SNAPSHOT_EXPIRED)
    async for info in objects.list(part_key(key, 0).rpartition("/")[0] + "/"):
        await reclaimer.delete([info.key], Reason.SNAPSHOT_EXPIRED)


def _known(values: Values) -> Snapshots:
    stored = values[keys.SNAPSHOTS]
    return Snapshots() if stored is None else decode(Snapshots, stored.value)
