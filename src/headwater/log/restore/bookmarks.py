"""Detects a metadata store that went back to an earlier state.

A metadata store that is restored from its own backup (an etcd snapshot, a PostgreSQL dump, a copy
of the SQLite file) does not name the objects that were written since. It would take them for
garbage, and assign their offsets to other records.

A counter in the metadata store is incremented with every start of a broker and every metadata
snapshot, and each value is written to the object store as a bookmark. Revisions of the backends
cannot be used instead: a restored etcd raises them, PostgreSQL counts them per schema.

Invariant: the counter has a value before the object store has it. So a store whose counter is below
the newest bookmark went back. If a store went back by less than the time since the last bookmark,
this is not detected.
"""

import json
from collections.abc import Sequence
from typing import Final

from headwater.cluster_record import ClusterRecord, check_same_cluster
from headwater.errors import ConfigurationError
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.meta import keys
from headwater.meta.store import Entry, MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import NextNumber, decode, encode
from headwater.objects.store import ObjectStore

BOOKMARKS: Final = "bookmarks/"


async def add_bookmark(
    meta: MetadataStore, objects: ObjectStore, reclaimer: Reclaimer, cluster: ClusterRecord
) -> None:
    """Increment the counter, and write a bookmark to the object store.

    Raises ``ConfigurationError`` if the metadata store went back.
    """
    known = await _bookmarks(objects)
    await require_not_behind(meta, _newest(known, cluster), cluster)

    def decide(values: Values) -> tuple[Writes, int]:
        writes = Writes()
        check_same_cluster(values[keys.CLUSTER], cluster)
        number = _count(values[keys.BOOKMARK]) + 1
        writes.put(keys.BOOKMARK, encode(NextNumber(next=number)))
        return writes, number

    number = await transact(meta, [keys.CLUSTER, keys.BOOKMARK], decide)
    own = _bookmark(cluster.epoch, number)
    await objects.put(own, [json.dumps({"bookmark": number}).encode()])
    await reclaimer.delete((key for key in known if key < own), Reason.BOOKMARK_REPLACED)


async def check_bookmark(meta: MetadataStore, objects: ObjectStore, cluster: ClusterRecord) -> None:
    """Raises ``ConfigurationError`` if the metadata store went back to an earlier state."""
    # In this order, so that the counter includes a bookmark that is added meanwhile.
    known = await _bookmarks(objects)
    await require_not_behind(meta, _newest(known, cluster), cluster)


async def require_not_behind(meta: MetadataStore, noted: int, cluster: ClusterRecord) -> int:
    """The store's counter. Raises ``ConfigurationError`` if it is below ``noted``."""
    found = _count(await meta.get(keys.BOOKMARK))
    if found >= noted:
        return found
    check_same_cluster(await meta.get(keys.CLUSTER), cluster)  # an empty store gets its own message
    raise ConfigurationError(
        f"the metadata store of cluster {cluster.id} went back to an earlier state: it has "
        f"bookmark {found}, and {noted} was noted since. Records that were acknowledged later are "
        "not in it: run headwater restore into an empty metadata store, or bring back the newer "
        "state"
    )


def _newest(known: Sequence[str], cluster: ClusterRecord) -> int:
    """The newest bookmark of the cluster's epoch; 0 if there is none."""
    # A restore begins a new epoch, at the counter of the snapshot that it was made from.
    prefix = _prefix(cluster.epoch)
    return max(
        (int(key.removeprefix(prefix)) for key in known if key.startswith(prefix)), default=0
    )


async def _bookmarks(objects: ObjectStore) -> list[str]:
    return [info.key async for info in objects.list(BOOKMARKS)]


def _count(stored: Entry | None) -> int:
    return 0 if stored is None else decode(NextNumber, stored.value).next


def _prefix(epoch: int) -> str:
    return f"{BOOKMARKS}{epoch:010d}/"


def _bookmark(epoch: int, number: int) -> str:
    return f"{_prefix(epoch)}{number:015d}"
