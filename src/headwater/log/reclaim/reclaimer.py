"""The only way to delete an object.

Invariant: an object is deleted only if no index entry, kept snapshot, pin, open job or live
incarnation can refer to it, at the time of the deletion or later. The caller guarantees this, and
its ``Reason`` says how. Most parts of a broker get an ``ObjectStore``, which cannot delete; those
that must delete get a ``Reclaimer``.

A data file of a table is an object like the others: its table releases it first (``releases``).
The metadata files of tables are deleted through pyiceberg (``tables.commit.snapshots``).
"""

from collections.abc import Iterable
from enum import StrEnum

from headwater.objects.store import DeletableObjects
from headwater.telemetry.metrics import Counter, Family


class Reason(StrEnum):
    """Why nothing can refer to an object, by the module that checks it.

    "Own objects": the metadata store owns these objects and did not go back to an
    earlier state (``claim``, ``bookmarks``).
    """

    RELEASED = "released"
    """``garbage``: no index entry refers to a chunk of it, for the grace time. No kept snapshot is
    as old as the release, no pin of the streams reaches back to it, no record of the object names a
    live chunk, and its writer will add none. Own objects."""
    ORPHANED = "orphaned"
    """``orphans``: its incarnation was fenced before the object was found to have no record, so it
    has no entry and never will. Own objects."""
    LOST_FILE = "lost_file"
    """``garbage``: its job was not CREATED, and after that no record named the file, so it is in no
    manifest and never will be. It is older than the grace time. Own objects."""
    DISCARDED_FILE = "discarded_file"
    """``jobs.steps``: the same for a file that the caller wrote for its own job."""
    UNUSED_MERGE = "unused_merge"
    """``merger``: this incarnation wrote it, and each transaction that would have put it into an
    index has ended without doing so."""
    SNAPSHOT_REPLACED = "snapshot_replaced"
    """``snapshots``: the list of kept snapshots does not name it and a newer one is complete. No
    restore has begun another epoch."""
    SNAPSHOT_EXPIRED = "snapshot_expired"
    """``garbage``: no newer snapshot was taken for a day, so it would keep garbage for ever. It is
    removed from the list of kept snapshots after its deletion. Own objects."""
    BOOKMARK_REPLACED = "bookmark_replaced"
    """``bookmarks``: a newer bookmark is stored, and only the newest is compared."""


class Reclaimer:
    """Deletes objects and counts them in ``deleted``."""

    def __init__(self, objects: DeletableObjects, deleted: Family[Counter] | None = None) -> None:
        self._objects = objects
        self._deleted = Family("reason", Counter) if deleted is None else deleted

    async def delete(self, keys: Iterable[str], reason: Reason) -> None:
        """Delete objects one after another; an absent object is no error.

        Raises ``StoreError`` if one cannot be deleted; the objects after it stay.
        """
        for key in keys:
            await self._objects.delete(key)
            self._deleted[reason].inc()
