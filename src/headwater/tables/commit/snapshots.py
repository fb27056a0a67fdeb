"""One atomic change of a table: files in, files out and properties in a single snapshot.

pyiceberg's retry repeats a change on top of other commits, and deletes the manifests of a commit
that seems to have failed. Both are wrong here: another process may have made the same change, and
if a response was lost and the request repeated, a successful commit looks like a failure. So a
change is tried once, and the caller reads the table again before the next attempt.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    ValidationException,
)
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID

from headwater.errors import TableMismatch
from headwater.tables.commit.iceberg_internals import StagedChange, commit_and_clean
from headwater.tables.topic_tables import LAST_SNAPSHOT

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChange:
    """The change that a table snapshot makes."""

    commit: str
    """The change's name. Repeated attempts have the same name, and so the same snapshot id."""
    added: "Sequence[DataFile]" = ()
    removed: "Sequence[DataFile]" = ()
    """Entries from the table's manifests."""
    properties: Mapping[str, str]
    """Table properties that the commit sets."""


def snapshot_id(commit: str) -> int:
    """The id of a change's table snapshot: positive, and the same for every attempt."""
    return int.from_bytes(hashlib.sha256(commit.encode()).digest()[:8], "big") >> 1


def try_change(table: "Table", change: SnapshotChange) -> bool:
    """Commit a change on top of the loaded table.

    Returns False if the table has changed since it was loaded, or already has this change; then
    load it and decide again. After any exception the outcome is unknown.
    """
    made = snapshot_id(change.commit)
    if table.metadata.snapshot_by_id(made) is not None:
        return False
    staged = StagedChange(
        table,
        made,
        added=change.added,
        removed=change.removed,
        summary={"headwater.commit": change.commit[:64]},
    )
    try:
        updates, requirements = staged.write(
            {**change.properties, LAST_SNAPSHOT: str(made), "gc.enabled": "false"}
        )
        commit_updates(table, updates, requirements)
    except (CommitFailedException, ValidationException):
        _discard(table, made, staged.written)
        return False
    return True


def commit_updates(table: "Table", updates: tuple[Any, ...], requirements: tuple[Any, ...]) -> None:
    """Commit updates to the table, if it is still the table that was loaded.

    Raises ``CommitFailedException`` if a requirement does not hold.
    """
    requirements = (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
    if isinstance(table.catalog, RestCatalog):
        # The server deletes old metadata files; pyiceberg would do it a second time.
        table.catalog.commit_table(table, requirements, updates)
    else:
        commit_and_clean(table, updates, requirements)


def _discard(table: "Table", made: int, written: Sequence[str]) -> None:
    """Delete the files of a failed change, unless a snapshot refers to them."""
    try:
        landed = table.catalog.load_table(table.name()).metadata.snapshot_by_id(made)
    except NoSuchTableError:
        return
    if landed is not None and _name(landed.manifest_list) in map(_name, written):
        return
    for location in written:
        try:
            table.io.delete(location)
        except OSError:
            _log.warning("Cannot delete an unreferenced file", extra={"location": location})


def _name(location: str) -> str:
    """A file's name without its directory, which catalogs may write differently."""
    return location.rpartition("/")[2]


def check_history(table: "Table", name: str) -> None:
    """Raises ``TableMismatch`` if another writer changed the table since Headwater's last snapshot.

    Snapshots of others are accepted if their operation is ``replace``, which changes no rows.
    """
    metadata = table.metadata
    ours = metadata.properties.get(LAST_SNAPSHOT)
    snapshot = metadata.current_snapshot()
    while (
        snapshot is not None
        and str(snapshot.snapshot_id) != ours
        and snapshot.summary is not None
        and snapshot.summary.operation == Operation.REPLACE
        and snapshot.parent_snapshot_id is not None
    ):
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id)
    if (None if snapshot is None else str(snapshot.snapshot_id)) != ours:
        found = "none" if snapshot is None else str(snapshot.snapshot_id)
        raise TableMismatch(
            f"table {name} was changed by another writer: its snapshot is {found}, and Headwater's "
            f"last one is {ours}; roll the table back to that snapshot"
        )
