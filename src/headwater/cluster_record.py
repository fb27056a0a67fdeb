"""The cluster's record in the metadata store: the cluster's identity and its feature level.

Every broker compares it in transactions that allocate names and numbers, and watches it while it
runs. A broker therefore stops if the store no longer has the cluster with which it started.
"""

import asyncio
import logging
from typing import Final

from headwater.errors import ConfigurationError, StoreError, StoreGone
from headwater.feature_levels import SUPPORTED_LEVELS, check_level
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
    """The snapshot that is being restored; no broker may use the cluster until this is empty."""
    objects: str = ""
    """The id of the cluster's object store, which is also in the store's marks
    (``log.restore.claim``); empty until the first broker has claimed a store."""
    objects_url: str = ""
    """The URL of that store when it was last claimed; only for messages, never compared."""


def same_cluster(value: bytes | None, own: ClusterRecord) -> ClusterRecord:
    """Decode the cluster's record; ``ConfigurationError`` if it is of another cluster."""
    if value is None:
        raise ConfigurationError(
            f"the metadata store was emptied and no longer has cluster {own.id}: "
            "this broker stops; run headwater restore"
        )
    found = decode(ClusterRecord, value)
    if (found.id, found.epoch) != (own.id, own.epoch):
        raise ConfigurationError(
            f"cluster {found.id} was restored and has restore epoch {found.epoch}: "
            "this broker stops; start it again"
        )
    return found


def check_same_cluster(stored: Entry | None, own: ClusterRecord) -> None:
    """``same_cluster`` for a transaction that reads the record."""
    same_cluster(None if stored is None else stored.value, own)


class ClusterRecordFollower:
    """A running broker's copy of the cluster's record. Keep ``run`` and ``check`` in tasks.

    The level may lag behind the record's level, but is never ahead of it.
    """

    def __init__(self, meta: MetadataStore, cluster: ClusterRecord) -> None:
        self._meta = meta
        self._cluster = cluster
        self._mirror = Mirror(meta, keys.CLUSTER, lambda values: self._changed(values.get("")))

    @property
    def level(self) -> int:
        return self._cluster.level

    async def run(self) -> None:
        """Watch the record until cancelled.

        Raises ``ConfigurationError`` if the cluster was restored while this broker runs, and
        ``UnknownFormat`` if it was finalized at a level that this release does not support.
        """
        await self._mirror.run()

    async def check(self) -> None:
        """Read the record every ``CHECK_SECONDS`` until cancelled.

        Raises what ``run`` raises, and ``ConfigurationError`` if the store's data was deleted. A
        watch does not notice that: an emptied store counts its revisions from 0, and the watch
        waits for a revision that it will not reach for long.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                stored = await self._meta.get(keys.CLUSTER)
            except StoreGone as error:
                raise ConfigurationError(str(error)) from error
            except StoreError as error:
                logger.warning("Could not read the cluster's record", extra={"error": error})
            else:
                check_same_cluster(stored, self._cluster)

    def _changed(self, value: bytes | None) -> None:
        found = same_cluster(value, self._cluster)
        check_level(found.level, SUPPORTED_LEVELS)
        if found.level != self._cluster.level:
            logger.info("The feature level has changed", extra={"feature_level": found.level})
            self._cluster = found
