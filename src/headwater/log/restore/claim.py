"""Marks in the object store that say which cluster it belongs to.

Garbage collection deletes objects that the metadata store does not name. With a wrong metadata
store that would be all objects: for example an empty store instead of a lost one, or a store that
came back after the cluster was restored elsewhere. So the object store has the id of its cluster
and the epoch of its last restore. A broker checks them when it starts, before it deletes, and
periodically.

A cluster must not use another object store either: with a second prefix, brokers would write
objects that the other brokers cannot find. So the first broker writes a random id into the object
store and into the cluster's record. Ids are compared, not URLs, because directories move, endpoints
change and buckets are copied.

Invariant: the object store has the id before the cluster's record has it. A broker that dies
between the two writes leaves an id that the next broker finds and notes.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Final
from uuid import uuid4

from headwater.cluster_record import ClusterRecord, same_cluster
from headwater.errors import (
    ConfigurationError,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from headwater.log.restore.bookmarks import require_not_behind
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import encode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
SUPERSEDED_SECONDS: Final = 1.5 * LOOK_SECONDS
"""How long after a restore a broker of another metadata store may acknowledge records."""
CLUSTERS: Final = "cluster/"
MARKS: Final = "owner/"
OWNER: Final = f"{MARKS}cluster"
"""The cluster's id and the object store's."""
STORE_ID: Final = f"{MARKS}objects"
"""The object store's id if an old release wrote ``OWNER`` without one."""
RESTORES: Final = "restores/"
SAMPLED_RECORDS: Final = 20


async def claim_objects(
    meta: MetadataStore, objects: ObjectStore, cluster: ClusterRecord, url: str
) -> ClusterRecord:
    """Mark the objects at ``url`` as this cluster's, and note their store's id in its record.

    Returns the record. Raises ``ConfigurationError`` if the objects are another cluster's, were
    restored since, or are not the objects that this cluster claimed before.
    """
    await check_claim(objects, cluster, url)
    if not cluster.objects:
        await _require_named_objects(meta, objects, cluster, url)
    mark = json.dumps({"cluster": cluster.id, "objects": uuid4().hex}).encode()
    # If two brokers start at once, the first put wins: a put never replaces an object.
    await objects.put(OWNER, [mark])
    if json.loads(await objects.get(OWNER))["cluster"] != cluster.id:
        raise ConfigurationError(
            f"the objects belong to another cluster than {cluster.id}, which began at the same "
            "moment: give each cluster its own prefix with --objects"
        )
    await objects.put(f"{CLUSTERS}{cluster.id}", [json.dumps({"cluster": cluster.id}).encode()])
    found = await store_id(objects)
    if found is None:
        await objects.put(STORE_ID, [json.dumps({"objects": uuid4().hex}).encode()])
        found = await store_id(objects)
        assert found is not None
    return await _note_store(meta, cluster, found, url)


async def _note_store(
    meta: MetadataStore, cluster: ClusterRecord, found: str, url: str
) -> ClusterRecord:
    """Note the object store's id in the cluster's record, unless another was claimed first."""

    def decide(values: Values) -> tuple[Writes, ClusterRecord]:
        writes, stored = Writes(), values[keys.CLUSTER]
        record = same_cluster(None if stored is None else stored.value, cluster)
        refuse_unfinished(record)
        if record.objects not in ("", found):
            raise _other_store(record, url)
        if (record.objects, record.objects_url) != (found, url):
            record.objects, record.objects_url = found, url
            writes.put(keys.CLUSTER, encode(record))
        return writes, record

    return await transact(meta, [keys.CLUSTER], decide)


async def _require_named_objects(
    meta: MetadataStore, objects: ObjectStore, cluster: ClusterRecord, url: str
) -> None:
    """Check that a store without an id is the one that the metadata was written with.

    Raises ``ConfigurationError`` if one of the first objects that the metadata names is missing.
    """
    prefix = keys.objects(0)
    sample = await meta.scan(prefix, prefix_end(prefix), limit=SAMPLED_RECORDS)
    for entry in sample.entries:
        name = entry.key.removeprefix(prefix).rpartition("/")[0]
        if not await _exists(objects, name) and await meta.get(entry.key) is not None:
            raise ConfigurationError(
                f"cluster {cluster.id} has an object {name}, and {url} does not: name the "
                "cluster's own object store with --objects"
            )


async def _exists(objects: ObjectStore, key: str) -> bool:
    async for info in objects.list(key):
        return info.key == key
    return False


def _other_store(cluster: ClusterRecord, url: str) -> ConfigurationError:
    return ConfigurationError(
        f"{url} is not the object store of cluster {cluster.id}, whose objects are in "
        f"{cluster.objects_url}: name that with --objects, or give another cluster its own "
        "metadata store with --metadata"
    )


async def refuse_lost_metadata(meta: MetadataStore, objects: ObjectStore) -> None:
    """Raises ``ConfigurationError`` if there are objects of a cluster but no metadata.

    Call it before a cluster's record is created.
    """
    # In this order, since the record is created before the objects are marked.
    owner = await owner_of(objects)
    if owner is not None and await meta.get(keys.CLUSTER) is None:
        raise ConfigurationError(
            f"the objects belong to cluster {owner} and the metadata store is empty: "
            "check --metadata, or run headwater restore where the metadata was lost"
        )


def refuse_unfinished(cluster: ClusterRecord) -> None:
    """Raises ``ConfigurationError`` if the metadata is of an unfinished restore.

    Objects that it does not name yet may be the only copies.
    """
    if cluster.restoring:
        raise ConfigurationError(
            f"the restore of {cluster.restoring} into this metadata store was not finished: "
            "run headwater restore again"
        )


async def check_claim(
    objects: ObjectStore, cluster: ClusterRecord, url: str = "the object store"
) -> None:
    """Raises ``ConfigurationError`` if the objects are not this cluster's, at this epoch.

    ``url`` is the place of the objects as a message names it.
    """
    refuse_unfinished(cluster)
    owner = await owner_of(objects)
    if owner not in (None, cluster.id):
        raise ConfigurationError(
            f"the objects belong to cluster {owner} and the metadata store to cluster "
            f"{cluster.id}: where the metadata was lost run headwater restore, else give each "
            "cluster its own prefix with --objects"
        )
    if cluster.objects and await store_id(objects) != cluster.objects:
        raise _other_store(cluster, url)
    restored = await last_restore(objects)
    if restored > cluster.epoch:
        raise ConfigurationError(
            f"the cluster was restored to epoch {restored} with another metadata store, and this "
            f"one is at epoch {cluster.epoch} and out of date: name the other with --metadata, or "
            "run headwater restore again if it was interrupted"
        )


async def watch_claim(meta: MetadataStore, objects: ObjectStore, cluster: ClusterRecord) -> None:
    """Check the claim periodically, until cancelled.

    Otherwise a broker that keeps running after its cluster was restored elsewhere would acknowledge
    records that the cluster does not have. Raises the errors of ``check_claim``, and
    ``ConfigurationError`` if the metadata store goes back to an earlier state.
    """
    noted = 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await check_not_restored(objects, cluster)
            noted = await require_not_behind(meta, noted, cluster)
        except StoreError as error:
            logger.warning("Cannot check for a restore of the cluster", extra={"error": error})


async def check_not_restored(objects: ObjectStore, cluster: ClusterRecord) -> None:
    """A cheaper ``check_claim``, for objects that were this cluster's: one GET instead of LISTs.

    Epochs are consecutive, so any restore leaves the mark of the next epoch. If the user may not
    list the bucket, S3 does not report a missing object as such; then the prefix is listed.
    """
    with suppress(StoreUnavailable):
        try:
            await objects.get(_restore_mark(cluster.epoch + 1))
        except ObjectNotFound:
            return
    await check_claim(objects, cluster)


async def owner_of(objects: ObjectStore) -> str | None:
    """The id of the cluster that the objects belong to; None if no broker has run."""
    async for info in objects.list(CLUSTERS):
        return info.key.removeprefix(CLUSTERS)
    return None


async def store_id(objects: ObjectStore) -> str | None:
    """The id of the object store; None if no cluster has claimed it with one."""
    # Listed first: S3 hides that an object is missing from a user who may only list a prefix.
    for key in [info.key async for info in objects.list(MARKS)]:
        found: str | None = json.loads(await objects.get(key)).get("objects")
        if found is not None:
            return found
    return None


async def last_restore(objects: ObjectStore) -> int:
    """The epoch of the cluster's last restore, finished or not; 0 if there was none."""
    epochs = [int(info.key.removeprefix(RESTORES)) async for info in objects.list(RESTORES)]
    return max(epochs, default=0)


async def note_restore(objects: ObjectStore, epoch: int) -> None:
    """Take an epoch. From then on, brokers at an older epoch do not start and delete nothing.

    Raises ``ConfigurationError`` if another restore takes it at the same moment.
    """
    key, mark = _restore_mark(epoch), json.dumps({"restore": uuid4().hex}).encode()
    await objects.put(key, [mark])  # it never replaces another's
    if bytes(await objects.get(key)) != mark:
        raise ConfigurationError(
            f"another restore of these objects has begun and is at epoch {epoch}: wait for it"
        )


def _restore_mark(epoch: int) -> str:
    return f"{RESTORES}{epoch:010d}"
