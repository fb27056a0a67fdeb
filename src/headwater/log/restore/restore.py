"""Brings a cluster back from the object store after its metadata store was lost.

The newest snapshot has the metadata. Newer files and WAL objects have most records that were
acknowledged since (``recovery``, ``placement``). The cluster keeps its id, topics, offsets and
groups of the snapshot, and gets a new restore epoch, which clients see as the leader epoch.
Afterwards tables are set to the content of the log (``pipeline.upkeep.table_restores``).

Invariants:

- Until the last key is written, the cluster's record says that it is being restored, and no broker
  starts. An interrupted restore is simply run again.
- Before any other key is written, the restore takes the epoch in the object store. From then on
  brokers of another metadata store, and an earlier restore, neither write nor delete. The record is
  written first: if the metadata store takes no writes, brokers elsewhere are not disturbed.
- A restore ends with a new snapshot. A later restore starts from it, and does not look at the same
  objects again.
- Offsets that an object states are used only if it was written in the snapshot's epoch, because a
  later restore may have given them to other records.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.clock import Clock
from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError, CorruptMessage, ObjectNotFound
from headwater.feature_levels import SUPPORTED_LEVELS, check_level
from headwater.log.formats.snapshot_file import SUFFIX, Item, SnapshotDescription, encode_snapshot
from headwater.log.jobs.jobs import TABLES, FileName, parse_file_key
from headwater.log.read.parquet.source import Offload, in_thread
from headwater.log.reclaim.releases import INDEX_SUFFIX
from headwater.log.restore.claim import RESTORES, last_restore, note_restore, owner_of, store_id
from headwater.log.restore.rebuild import Rebuild
from headwater.log.restore.recovery import (
    WAL,
    Candidate,
    FoundSection,
    candidate,
    in_order,
    incarnation_of,
    is_merged,
    merged_sections,
    newer_sections,
)
from headwater.log.restore.restored import Recovered, Restored, TableHolding
from headwater.log.restore.snapshots import (
    EVERYTHING,
    PREFIX,
    Snapshot,
    read_snapshot,
    snapshot_key,
)
from headwater.log.restore.surviving_files import FileSurvey, SurvivingFile
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode
from headwater.objects.store import ObjectInfo, ObjectStore

logger = logging.getLogger(__name__)

KEYS_AT_ONCE: Final = 100
BY: Final = "restore"
"""Replaces the incarnation in the name of the snapshot that a restore writes."""
BYTES_AT_ONCE: Final = 512 * 1024

Watch = Callable[[str, int, int], None]
"""Called with the current activity, how much of it is done, and how much there is."""

Holdings = Callable[[SnapshotDescription, Collection[str]], Awaitable[Mapping[str, TableHolding]]]
"""Returns, by topic id, what the tables had in a snapshot's epoch, if they can be read."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """The result of a restore or of a dry run."""

    snapshot: str
    description: SnapshotDescription
    epoch: int
    topics: int
    streams: int
    keys: int
    adopted: int
    """Files of tables that could not be placed and are kept."""
    found: Recovered


async def _no_holdings(
    _of: SnapshotDescription, _topic_ids: Collection[str]
) -> Mapping[str, TableHolding]:
    return {}


async def snapshots_in(objects: ObjectStore) -> list[str]:
    """The snapshots in the object store, oldest first."""
    return [info.key async for info in objects.list(PREFIX) if info.key.endswith(SUFFIX)]


async def restore(
    meta: MetadataStore,
    objects: ObjectStore,
    clock: Clock,
    *,
    snapshot: str | None = None,
    dry_run: bool = False,
    wait_s: float = 0,
    watch: Watch = lambda _doing, _done, _total: None,
    holdings: Holdings = _no_holdings,
    offload: Offload = in_thread,
) -> Restoration:
    """Restore the newest or the named snapshot into an empty metadata store.

    ``wait_s`` is the time in which brokers of another metadata store notice the restore, before
    objects are read. Records that they acknowledge until then are found. Raises
    ``ConfigurationError`` if there is no snapshot, the store is in use, or the extra ``table`` is
    missing and there are Parquet files.
    """
    key = await _choose(objects, snapshot)
    watch(f"Reading {key}", 0, 0)
    description, items = await read_snapshot(objects, key)
    check_level(description.level, SUPPORTED_LEVELS)
    owner = await owner_of(objects)
    if owner not in (None, description.cluster):
        raise ConfigurationError(
            f"{key} is of cluster {description.cluster}, and the objects belong to {owner}"
        )
    await _check_target(meta, description.cluster)
    restored = Restored(items, objects.id)
    epoch = 1 + max(description.epoch, await last_restore(objects))
    exact_to_ms = await _next_restore_ms(objects, description.epoch)
    restored.begin_epoch(epoch, await store_id(objects))
    started = _restoring(restored.cluster, key)
    if not dry_run:
        await _begin(meta, started, description.cluster)
        await note_restore(objects, epoch)
        await _wait_for_others(wait_s, watch)
    written_ms = min([info.modified_ms async for info in objects.list(key)], default=0)
    finding = _Finding(
        objects, restored, description, written_ms, exact_to_ms, FileSurvey(objects, offload), watch
    )
    held = await holdings(description, restored.by_topic_id)
    rebuild = Rebuild(restored)
    files, sections = await finding.files(held), await finding.sections()
    rebuild.place_files(files, held, damaged=finding.damaged, merged=finding.merged)
    rebuild.place_merged(finding.merged, finding.sizes)
    rebuild.walk(in_order(sections), finding.sizes)
    restored.finish(epoch, clock.now_ms())
    now_ms = clock.now_ms()
    own = Snapshot(snapshot_key(epoch, now_ms, BY), 0, now_ms, pending=False)
    if not dry_run:
        await objects.put(own.key, _snapshot(restored, description, epoch, now_ms))
    # The objects of both are kept until brokers take snapshots in the new epoch.
    restored.list_snapshots([Snapshot(key, 0, description.taken_ms, pending=False), own])
    if not dry_run:
        await _write(meta, restored, started, watch)
    return Restoration(
        snapshot=key,
        description=description,
        epoch=epoch,
        topics=len(restored.topics),
        streams=len(restored.streams),
        keys=len(restored),
        adopted=sum(key.startswith(TABLES) for key in restored.found.unplaced),
        found=restored.found,
    )


async def _wait_for_others(wait_s: float, watch: Watch) -> None:
    seconds = math.ceil(wait_s)
    for second in range(seconds):
        watch("Waiting for brokers that were left running to end", second, seconds)
        await asyncio.sleep(wait_s / seconds)


async def _choose(objects: ObjectStore, wanted: str | None) -> str:
    there = await snapshots_in(objects)
    if not there:
        raise ConfigurationError(
            "there is no snapshot of the metadata among these objects; brokers take one every "
            "log.snapshot_interval_ms: check --objects"
        )
    if wanted is not None and wanted not in there:
        raise ConfigurationError(f"there is no snapshot {wanted}; there are: {', '.join(there)}")
    return wanted or there[-1]


async def _check_target(meta: MetadataStore, cluster_id: str) -> None:
    stored = await meta.get(keys.CLUSTER)
    if stored is None:
        # A broker that still runs may register here before it notices the empty store.
        found = await meta.scan(*EVERYTHING, limit=2)
        strange = [each.key for each in found.entries if each.key != keys.NEXT_BROKER_EPOCH]
        if strange:
            raise ConfigurationError(
                f"the metadata store is not empty, {strange[0]} is there: stop all brokers, and "
                "restore into an empty one"
            )
        return
    _refuse_other(stored, cluster_id)


def _refuse_other(stored: Entry, cluster_id: str) -> None:
    there = decode(ClusterRecord, stored.value)
    if not there.restoring or there.id != cluster_id:
        raise ConfigurationError(
            f"the metadata store holds cluster {there.id} already: restore into an empty one"
        )


@dataclass(slots=True)
class _Finding:
    """Finds files and sections that are newer than the snapshot."""

    objects: ObjectStore
    restored: Restored
    description: SnapshotDescription
    written_ms: int
    exact_to_ms: int | None
    survey: FileSurvey
    watch: Watch
    merged: list[FoundSection] = field(default_factory=list)
    damaged: list[FileName] = field(default_factory=list)
    """The files that cannot be placed."""
    sizes: dict[str, int] = field(default_factory=dict)

    def _is_exact(self, info: ObjectInfo) -> bool:
        """Whether the offsets that an object states are those of the snapshot's epoch."""
        return self.exact_to_ms is None or info.modified_ms <= self.exact_to_ms

    async def files(self, held: Mapping[str, TableHolding]) -> list[SurvivingFile]:
        """The files that can be placed."""
        found: list[tuple[ObjectInfo, FileName]] = []
        async for info in self.objects.list(TABLES):
            name = parse_file_key(info.key)
            if name is None or name.suffix == INDEX_SUFFIX:
                continue
            if self.restored.note_file(info, name, exact=self._is_exact(info)):
                found.append((info, name))
        files: list[SurvivingFile] = []
        for number, (info, name) in enumerate(found):
            self.watch("Reading files of tables", number, len(found))
            stream = self.restored.stream_of(name)
            assert stream is not None
            live = name.topic_id in held and info.key in held[name.topic_id].files
            known_to = self.restored.high_watermark(stream)
            try:
                files.append(await self.survey.read(info, name, known_to, live=live))
            except (CorruptMessage, ObjectNotFound) as error:
                logger.warning(
                    "A file cannot be placed", extra={"object": info.key, "error": error}
                )
                self.damaged.append(name)
        return files

    async def sections(self) -> list[FoundSection]:
        """The sections of flushes that are newer than the snapshot; merged ones go to
        ``merged``.
        """
        known = self.restored.incarnations
        candidates: list[Candidate] = []
        async for info in self.objects.list(WAL):
            found = candidate(
                info,
                known.get(incarnation_of(info.key)),
                recorded=self.restored.recorded(info.key),
            )
            if found is not None:
                candidates.append(found)
        sections: list[FoundSection] = []
        for number, each in enumerate(candidates):
            self.watch("Looking for newer records", number, len(candidates))
            self.sizes[each.info.key] = each.info.size
            if is_merged(each.info.key) and not self._is_exact(each.info):
                self.restored.used.keep(each.info.key, each.info.size)
                continue
            data = await self.objects.get(each.info.key)
            if is_merged(each.info.key):
                self.merged += merged_sections(data, each.info.key)
            else:
                sections += newer_sections(
                    data, each, known, self.description.taken_ms, self.written_ms
                )
        return sections


async def _next_restore_ms(objects: ObjectStore, epoch: int) -> int | None:
    """When, by the store's clock, the cluster was restored after this epoch; None if it was not."""
    times = [
        info.modified_ms
        async for info in objects.list(RESTORES)
        if int(info.key.removeprefix(RESTORES)) > epoch
    ]
    return min(times, default=None)


def _snapshot(restored: Restored, of: SnapshotDescription, epoch: int, now_ms: int) -> list[bytes]:
    """A snapshot of the metadata that will be written."""
    items = restored.everything()
    description = SnapshotDescription(
        cluster=of.cluster,
        epoch=epoch,
        level=of.level,
        revision=0,
        taken_ms=now_ms,
        entries=len(items),
        bytes=sum(len(key) + len(value) for key, value in items),
        incarnation=BY,
    )
    return encode_snapshot(description, items)


def _restoring(cluster: ClusterRecord, snapshot: str) -> bytes:
    """The record of a cluster that is being restored, with which no broker starts."""
    cluster.restoring = snapshot
    return encode(cluster)


async def _write(meta: MetadataStore, restored: Restored, started: bytes, watch: Watch) -> None:
    items = restored.items()
    done = 0
    for some in _some_at_a_time(items, meta.limits.operations or KEYS_AT_ONCE):
        await _put(meta, started, dict(some))
        done += len(some)
        watch("Writing metadata", done, len(items))
    await _put(meta, started, {keys.CLUSTER: encode(restored.cluster)})


async def _begin(meta: MetadataStore, started: bytes, cluster_id: str) -> None:
    """Empty the store. A repeated attempt does not delete what was written since the first."""

    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        there = values[keys.CLUSTER]
        if there is not None:
            _refuse_other(there, cluster_id)
        if there is None or there.value != started:
            writes.delete_range(*EVERYTHING)
            writes.put(keys.CLUSTER, started)
        return writes, None

    await transact(meta, [keys.CLUSTER], decide)


async def _put(meta: MetadataStore, started: bytes, puts: dict[str, bytes]) -> None:
    """Write keys while this restore is running, and not after it, when brokers write.

    A late attempt, and a restore that another one has replaced, lose the comparison. Raises
    ``ConfigurationError`` if this restore was replaced.
    """

    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        there = values[keys.CLUSTER]
        found = None if there is None else there.value
        if found != started:
            if found is not None and found == puts.get(keys.CLUSTER):
                return writes, None  # The first attempt was applied.
            raise ConfigurationError(
                "another restore into this metadata store has begun since: this one stops"
            )
        for key, value in puts.items():
            writes.put(key, value)
        return writes, None

    await transact(meta, [keys.CLUSTER], decide)


def _some_at_a_time(items: list[Item], most: int) -> Iterable[list[Item]]:
    """Few enough keys and bytes for any store's transaction."""
    some: list[Item] = []
    size = 0
    for key, value in items:
        if some and (len(some) >= min(most, KEYS_AT_ONCE) or size + len(value) > BYTES_AT_ONCE):
            yield some
            some, size = [], 0
        some.append((key, value))
        size += len(key) + len(value)
    if some:
        yield some
