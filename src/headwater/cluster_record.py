"""The cluster's record in the metadata store: who the cluster is, and its feature level.

Every broker compares it in the transactions that take names and numbers, and follows it while it
runs, so that it stops where the store is no longer the one that it started on.
"""

import asyncio
import logging
from typing import Final

from headwater.errors import ConfigurationError, StoreError, StoreGone
from headwater.feature_levels import SPOKEN, check_level
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import Entry, MetadataStore
from headwater.meta.values import Value, decode

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0


class ClusterRecord(Value):
    """The cluster's identity; ``epoch`` is the leader epoch that clients see."""

    id: str
    level: int = 1
    """The finalized feature level; see ``feature_levels``."""
    epoch: int = 0
    restoring: str = ""
    """The snapshot that is being restored: until that is done nobody may use the cluster."""
    objects: str = ""
    """The id of the cluster's object store, which stands in its marks too (``log.claim``); empty
    until the first broker has claimed one."""
    objects_url: str = ""
    """Where that store was when it was last claimed: for messages, never compared."""


def same_cluster(value: bytes | None, own: ClusterRecord) -> ClusterRecord:
    """The cluster's record; raises ``ConfigurationError`` where it is not of the same cluster."""
    if value is None:
        raise ConfigurationError(
            f"the metadata store was emptied, and cluster {own.id} was in it: this broker stops; "
            "run headwater restore"
        )
    found = decode(ClusterRecord, value)
    if (found.id, found.epoch) != (own.id, own.epoch):
        raise ConfigurationError(
            f"cluster {found.id} was restored and is at epoch {found.epoch} now: "
            "this broker stops; start it again"
        )
    return found


def check_same_cluster(stored: Entry | None, own: ClusterRecord) -> None:
    """``same_cluster`` in a transaction that reads the record."""
    same_cluster(None if stored is None else stored.value, own)


class ClusterRecordFollower:
    """A running broker's view of the cluster's record: keep ``run`` and ``look`` in tasks.

    The level may lag behind the record's and never leads it.
    """

    def __init__(self, meta: MetadataStore, cluster: ClusterRecord) -> None:
        self._meta = meta
        self._cluster = cluster
        self._mirror = Mirror(meta, keys.CLUSTER, lambda values: self._changed(values.get("")))

    @property
    def level(self) -> int:
        return self._cluster.level

    async def run(self) -> None:
        """Follow until cancelled.

        Raises ``ConfigurationError`` where the cluster was restored under this broker, and
        ``UnknownFormat`` where it was finalized at a level that it does not speak.
        """
        await self._mirror.run()

    async def look(self) -> None:
        """Look at the record now and then, until cancelled; raises what ``run`` raises.

        And ``ConfigurationError`` where the store's data was taken away.

        A store that comes back empty begins to count its revisions anew, and whoever follows it
        waits for one that it will not have for long.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                stored = await self._meta.get(keys.CLUSTER)
            except StoreGone as error:
                raise ConfigurationError(str(error)) from error
            except StoreError as error:
                logger.warning("cannot look at the cluster's record: %s", error)
            else:
                check_same_cluster(stored, self._cluster)

    def _changed(self, value: bytes | None) -> None:
        found = same_cluster(value, self._cluster)
        check_level(found.level, SPOKEN)
        if found.level != self._cluster.level:
            logger.info("the cluster is at feature level %d now", found.level)
            self._cluster = found
