"""The cluster's feature level: which formats its brokers may write.

Each release speaks a range of levels and says so in its registration. The cluster's record holds
the finalized one. A format is written from the level on that brought it, so brokers of two
releases work side by side until an operator finalizes, and a release that does not speak the
finalized level does not start. A level never goes back: what was written stays.

| level | what it brought |
|---|---|
| 1 | the first formats |
| 2 | an incarnation notes the last section that it committed, so that a restore finds those that
      came after a snapshot (``recovery``) |
"""

import asyncio
import logging
from typing import Final, NamedTuple

from headwater.errors import ConfigurationError, StoreError, StoreGone, UnknownFormat
from headwater.log.formats import Cluster
from headwater.meta import keys
from headwater.meta.mirror import Mirror
from headwater.meta.store import Entry, MetadataStore
from headwater.meta.values import decode

logger = logging.getLogger(__name__)

NOTED_SECTIONS: Final = 2
LOOK_SECONDS: Final = 5.0


class Levels(NamedTuple):
    """A range of feature levels, both ends included."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.lowest}" if self.lowest == self.highest else f"{self[0]} to {self[1]}"


SPOKEN: Final = Levels(1, 2)
"""What this release reads and can write."""


def check_level(level: int, spoken: Levels) -> None:
    """Raises ``UnknownFormat`` where a cluster is at a level that a release does not speak."""
    if not spoken.lowest <= level <= spoken.highest:
        wanted = "newer" if level > spoken.highest else "older"
        raise UnknownFormat(
            f"the cluster is at feature level {level} and this release speaks {spoken}: "
            f"run a {wanted} release of headwater"
        )


def same_cluster(value: bytes | None, own: Cluster) -> Cluster:
    """The cluster's record; raises ``ConfigurationError`` where it is not of the same cluster."""
    if value is None:
        raise ConfigurationError(
            f"the metadata store was emptied, and cluster {own.id} was in it: this broker stops; "
            "run headwater restore"
        )
    found = decode(Cluster, value)
    if (found.id, found.epoch) != (own.id, own.epoch):
        raise ConfigurationError(
            f"cluster {found.id} was restored and is at epoch {found.epoch} now: "
            "this broker stops; start it again"
        )
    return found


def check_same_cluster(stored: Entry | None, own: Cluster) -> None:
    """``same_cluster`` in a transaction that reads the record."""
    same_cluster(None if stored is None else stored.value, own)


class ClusterFollower:
    """A running broker's view of the cluster's record: keep ``run`` and ``look`` in tasks.

    The level may lag behind the record's and never leads it.
    """

    def __init__(self, meta: MetadataStore, cluster: Cluster) -> None:
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
            await asyncio.sleep(LOOK_SECONDS)
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
