"""Whose objects these are: marks in the object store that outlive the metadata store.

Garbage collection deletes objects that the metadata store knows nothing of. On the wrong metadata
store, an empty one in the place of one that was lost, or one that came back after the cluster was
restored elsewhere, that would be all of them. So the objects themselves say which cluster they
belong to and how often it was restored; a broker asks before it starts, before it deletes, and now
and then.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Final
from uuid import uuid4

from headwater.errors import (
    ConfigurationError,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from headwater.log.formats import Cluster
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 30.0
CLUSTERS: Final = "cluster/"
OWNER: Final = "owner/cluster"
RESTORES: Final = "restores/"


async def claim_objects(objects: ObjectStore, cluster: Cluster) -> None:
    """Mark the objects as this cluster's.

    Raises ``ConfigurationError`` where they are another's, or were restored since.
    """
    await check_claim(objects, cluster)
    mark = json.dumps({"cluster": cluster.id}).encode()
    # Of two that start at once the first one has it: a put never replaces another's.
    await objects.put(OWNER, [mark])
    if bytes(await objects.get(OWNER)) != mark:
        raise ConfigurationError(
            f"the objects belong to another cluster than {cluster.id}, which began at the same "
            "moment: give each cluster its own prefix with --objects"
        )
    await objects.put(f"{CLUSTERS}{cluster.id}", [mark])


async def refuse_lost_metadata(meta: MetadataStore, objects: ObjectStore) -> None:
    """Raises ``ConfigurationError`` where there are objects of a cluster and no metadata.

    To be asked before a cluster's record is made.
    """
    # In this order: whoever marks the objects has made the record before.
    owner = await owner_of(objects)
    if owner is not None and await meta.get(keys.CLUSTER) is None:
        raise ConfigurationError(
            f"the objects belong to cluster {owner} and the metadata store is empty: "
            "check --metadata, or run headwater restore where the metadata was lost"
        )


def refuse_unfinished(cluster: Cluster) -> None:
    """Raises ``ConfigurationError`` where the metadata is that of a restore under way.

    What it does not name yet may be all that there is.
    """
    if cluster.restoring:
        raise ConfigurationError(
            f"the restore of {cluster.restoring} into this metadata store was not finished: "
            "run headwater restore again"
        )


async def check_claim(objects: ObjectStore, cluster: Cluster) -> None:
    """Raises ``ConfigurationError`` where the objects are not this cluster's, at this epoch."""
    refuse_unfinished(cluster)
    owner = await owner_of(objects)
    if owner not in (None, cluster.id):
        raise ConfigurationError(
            f"the objects belong to cluster {owner} and the metadata store to cluster "
            f"{cluster.id}: where the metadata was lost run headwater restore, else give each "
            "cluster its own prefix with --objects"
        )
    restored = await last_restore(objects)
    if restored > cluster.epoch:
        raise ConfigurationError(
            f"the cluster was restored to epoch {restored} with another metadata store, and this "
            f"one is at epoch {cluster.epoch} and out of date: name the other with --metadata, or "
            "run headwater restore again where it was broken off"
        )


async def watch_claim(objects: ObjectStore, cluster: Cluster) -> None:
    """Look at it now and then, until cancelled; raises what ``check_claim`` raises.

    A broker that was not stopped before its cluster was restored elsewhere would acknowledge
    records for ever that the cluster does not have.
    """
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            await check_not_restored(objects, cluster)
        except StoreError as error:
            logger.warning("cannot look for a restore of the cluster: %s", error)


async def check_not_restored(objects: ObjectStore, cluster: Cluster) -> None:
    """``check_claim`` of a cluster whose objects these were: one GET, a twelfth of what lists cost.

    Epochs follow one another, so that the next one's mark is there after any restore. To those
    who may list a prefix alone S3 does not say that there is none: they have to list.
    """
    with suppress(StoreUnavailable):
        try:
            await objects.get(_restore_mark(cluster.epoch + 1))
        except ObjectNotFound:
            return
    await check_claim(objects, cluster)


async def owner_of(objects: ObjectStore) -> str | None:
    """The id of the cluster that the objects belong to; None where no broker has run."""
    async for info in objects.list(CLUSTERS):
        return info.key.removeprefix(CLUSTERS)
    return None


async def last_restore(objects: ObjectStore) -> int:
    """The epoch of the cluster's last restore, also of one that was not finished; 0: never."""
    epochs = [int(info.key.removeprefix(RESTORES)) async for info in objects.list(RESTORES)]
    return max(epochs, default=0)


async def note_restore(objects: ObjectStore, epoch: int) -> None:
    """Take an epoch: whoever is at an older one no longer starts, nor deletes anything.

    Raises ``ConfigurationError`` where another restore takes it at the same moment.
    """
    key, mark = _restore_mark(epoch), json.dumps({"restore": uuid4().hex}).encode()
    await objects.put(key, [mark])  # it never replaces another's
    if bytes(await objects.get(key)) != mark:
        raise ConfigurationError(
            f"another restore of these objects has begun and is at epoch {epoch}: wait for it"
        )


def _restore_mark(epoch: int) -> str:
    return f"{RESTORES}{epoch:010d}"
