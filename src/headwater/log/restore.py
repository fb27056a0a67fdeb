"""Bringing a cluster back from the object store after its metadata store was lost.

The newest snapshot gives the metadata; WAL objects that came after it give back most of what was
acknowledged since (``recovery``). The cluster keeps its id, topics, offsets and groups as the
snapshot has them, and gets a new restore epoch, which is the leader epoch that clients see.

Invariants:

- Until the last key is written the cluster's record says that it is being restored, and no broker
  starts. A restore that was broken off is simply run again.
- Before another key is written the epoch is taken in the object store, so that brokers of another
  metadata store, and an earlier restore, no longer write or delete. The record comes first: where
  the metadata store takes no writes, brokers elsewhere go on as if nothing had been tried.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headwater.clock import Clock
from headwater.errors import ConfigurationError
from headwater.log.claim import last_restore, note_restore, owner_of, store_id
from headwater.log.formats import Cluster
from headwater.log.jobs import TABLES, job_of_file
from headwater.log.levels import SPOKEN, check_level
from headwater.log.recovery import (
    WAL,
    Candidate,
    FoundSection,
    candidate,
    in_order,
    incarnation_of,
    newer_sections,
)
from headwater.log.restored import Recovered, Restored
from headwater.log.snapshot_file import SUFFIX, Description, Item
from headwater.log.snapshots import EVERYTHING, PREFIX, Snapshot, read_snapshot
from headwater.log.transactions import transact
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, Values, Writes
from headwater.meta.values import decode, encode
from headwater.objects.store import ObjectStore

KEYS_AT_ONCE: Final = 100
BYTES_AT_ONCE: Final = 512 * 1024

Watch = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Restoration:
    """What a restore did, or in a dry run would do."""

    snapshot: str
    description: Description
    epoch: int
    topics: int
    streams: int
    keys: int
    adopted: int
    """Files of tables that are newer than the snapshot and were kept."""
    found: Recovered


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
) -> Restoration:
    """Restore the newest snapshot, or the one that is named, into an empty metadata store.

    ``wait_s`` is the time that brokers of another metadata store get to notice that they are
    superseded, before the objects are read: what they acknowledge until then is found. Raises
    ``ConfigurationError`` where there is no snapshot, or the store is in use.
    """
    key = await _choose(objects, snapshot)
    watch(f"Reading {key}", 0, 0)
    description, items = await read_snapshot(objects, key)
    check_level(description.level, SPOKEN)
    owner = await owner_of(objects)
    if owner not in (None, description.cluster):
        raise ConfigurationError(
            f"{key} is of cluster {description.cluster}, and the objects belong to {owner}"
        )
    await _check_target(meta, description.cluster)
    restored = Restored(items, objects.id)
    epoch = 1 + max(description.epoch, await last_restore(objects))
    restored.begin_epoch(epoch, await store_id(objects))
    started = _restoring(restored.cluster, key)
    if not dry_run:
        await _begin(meta, started, description.cluster)
        await note_restore(objects, epoch)
        await _wait_for_others(wait_s, watch)
    written_ms = min([info.modified_ms async for info in objects.list(key)], default=0)
    for section in in_order(await _newer(objects, restored, description, written_ms, watch)):
        restored.append(section, clock.now_ms())
    adopted = 0
    async for info in objects.list(TABLES):
        if job_of_file(info.key) is not None:
            adopted += restored.adopt(info.key, info.size, clock.now_ms())
    restored.finish()
    # What it refers to is kept until the new epoch has snapshots of its own.
    restored.list_snapshot(Snapshot(key, 0, description.taken_ms, pending=False))
    if not dry_run:
        await _write(meta, restored, started, watch)
    return Restoration(
        snapshot=key,
        description=description,
        epoch=epoch,
        topics=len(restored.topics),
        streams=restored.streams,
        keys=len(restored),
        adopted=adopted,
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
        # A broker that outlived its store counts its registration there before it notices.
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
    there = decode(Cluster, stored.value)
    if not there.restoring or there.id != cluster_id:
        raise ConfigurationError(
            f"the metadata store holds cluster {there.id} already: restore into an empty one"
        )


async def _newer(
    objects: ObjectStore,
    restored: Restored,
    description: Description,
    written_ms: int,
    watch: Watch,
) -> list[FoundSection]:
    """Every section that is newer than the snapshot."""
    known = restored.incarnations
    candidates: list[Candidate] = []
    async for info in objects.list(WAL):
        found = candidate(
            info, known.get(incarnation_of(info.key)), recorded=restored.recorded(info.key)
        )
        if found is not None:
            candidates.append(found)
    sections: list[FoundSection] = []
    for number, each in enumerate(candidates):
        watch("Looking for newer records", number, len(candidates))
        data = await objects.get(each.info.key)
        sections += newer_sections(data, each, known, description.taken_ms, written_ms)
    return sections


def _restoring(cluster: Cluster, snapshot: str) -> bytes:
    """The record of a cluster that no broker may start on yet."""
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
    """Wipe the store. An attempt whose answer was lost does not wipe what was written since."""

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
    """Write keys while this restore is under way, and not after it: brokers write then.

    An attempt whose answer was lost, and a restore that another one overtook, compare and lose.
    Raises ``ConfigurationError`` where this one was overtaken.
    """

    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        there = values[keys.CLUSTER]
        found = None if there is None else there.value
        if found != started:
            if found is not None and found == puts.get(keys.CLUSTER):
                return writes, None  # the first attempt landed
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
