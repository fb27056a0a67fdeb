"""One atomic change of a table: files in, files out and properties in a single snapshot.

pyiceberg's own retry repeats a change on top of whatever a rival did, and it deletes the
manifests of a commit whose answer said that it failed. Both are wrong here: a rival may have
done our change, and a lost answer that is repeated below us looks like a failure. So a change is
tried once, and whoever asked for it looks at the table again before it is tried again.
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
    """What a snapshot does to a table."""

    commit: str
    """The change's name: two tries of one change have the same, and so the same snapshot id."""
    added: "Sequence[DataFile]" = ()
    removed: "Sequence[DataFile]" = ()
    """Entries as the table's manifests have them."""
    properties: Mapping[str, str]
    """Set in the same commit."""


def snapshot_id(commit: str) -> int:
    """The id of the snapshot that a change makes: positive, the same for every try."""
    return int.from_bytes(hashlib.sha256(commit.encode()).digest()[:8], "big") >> 1


def try_change(table: "Table", change: SnapshotChange) -> bool:
    """Commit a change on top of the table as it was loaded.

    False says that the table has changed since and that nothing was done, or that this very
    change is there already: load it and decide again. Whatever else is raised leaves open
    whether it landed.
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
    """SnapshotChange the table in its catalog, if it is still the one that was loaded.

    Raises ``CommitFailedException`` where a requirement does not hold.
    """
    requirements = (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
    if isinstance(table.catalog, RestCatalog):
        # Its server deletes versions of the metadata that are too old; pyiceberg would again.
        table.catalog.commit_table(table, requirements, updates)
    else:
        commit_and_clean(table, updates, requirements)


def _discard(table: "Table", made: int, written: Sequence[str]) -> None:
    """Delete what a lost change wrote, once it is sure that no snapshot has it."""
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
            _log.warning("%s could not be deleted; no table refers to it", location)


def _name(location: str) -> str:
    """A file's own name: catalogs write one location in several ways."""
    return location.rpartition("/")[2]


def check_history(table: "Table", name: str) -> None:
    """Raises ``TableMismatch`` where the newest snapshot is not the one that we made last.

    What others did on top is accepted only where they say that it changed no rows.
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
            f"table {name} was changed by someone else: its snapshot is {found}, and the last one "
            f"of Headwater is {ours}; set the table back to that one"
        )
