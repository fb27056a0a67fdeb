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
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    ValidationException,
)
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID
from pyiceberg.table.update.snapshot import _FastAppendFiles, _ManifestMergeManager

from headwater.errors import TableMismatch
from headwater.tables.topic_tables import LAST_SNAPSHOT

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

FULL_MANIFEST: Final = 400
SMALL_MANIFESTS: Final = 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a snapshot does to a table."""

    commit: str
    """The change's name: two tries of one change have the same, and so the same snapshot id."""
    added: "Sequence[DataFile]" = ()
    removed: "Sequence[DataFile]" = ()
    """Entries as the table's manifests have them."""
    properties: Mapping[str, str]
    """Set in the same commit."""


class _Transaction(Transaction):
    """pyiceberg's, which copies all metadata at each of a dozen looks, even with nothing staged.

    The copies made a commit's cost grow with every snapshot that a table keeps.
    """

    @property
    def table_metadata(self) -> "TableMetadata":
        """The metadata with what is staged, to be read only."""
        return super().table_metadata if self._updates else self._table.metadata


class _Append(_FastAppendFiles):
    """An append that merges small manifests into one now and then.

    pyiceberg's own merge rewrites a manifest again and again until it has megabytes. Here one
    that has ``FULL_MANIFEST`` entries is left alone for good, so that what a commit costs does
    not grow with the table.
    """

    def _process_manifests(self, manifests: "list[ManifestFile]") -> "list[ManifestFile]":
        spec = self._transaction.table_metadata.default_spec_id
        small = [
            one
            for one in manifests
            if one.content == ManifestContent.DATA
            and one.partition_spec_id == spec
            and (one.added_files_count or 0) + (one.existing_files_count or 0) < FULL_MANIFEST
        ]
        if len(small) < SMALL_MANIFESTS:
            return manifests
        merger = _ManifestMergeManager(
            target_size_bytes=0, min_count_to_merge=0, merge_enabled=True, snapshot_producer=self
        )
        rest = [one for one in manifests if one not in small]
        merged = merger._create_manifest(spec, small)
        for one in small:
            if one.added_snapshot_id == self._snapshot_id:  # written a moment ago, for this merge
                self._io.delete(one.manifest_path)
                self._written_manifests.remove(one.manifest_path)
        return [merged, *rest]


def snapshot_id(commit: str) -> int:
    """The id of the snapshot that a change makes: positive, the same for every try."""
    return int.from_bytes(hashlib.sha256(commit.encode()).digest()[:8], "big") >> 1


def try_change(table: "Table", change: Change) -> bool:
    """Commit a change on top of the table as it was loaded.

    False says that the table has changed since and that nothing was done, or that this very
    change is there already: load it and decide again. Whatever else is raised leaves open
    whether it landed.
    """
    transaction = _Transaction(table)
    made = snapshot_id(change.commit)
    if table.metadata.snapshot_by_id(made) is not None:
        return False
    summary = {"headwater.commit": change.commit[:64]}
    producer: Any = (
        transaction.update_snapshot(snapshot_properties=summary).overwrite()
        if change.removed
        else _Append(Operation.APPEND, transaction, table.io, snapshot_properties=summary)
    )
    producer._snapshot_id = made
    if change.removed and not change.added:
        producer._operation = Operation.DELETE
    for file in change.added:
        producer.append_data_file(file)
    for file in change.removed:
        producer.delete_data_file(file)
    try:
        producer.commit()  # stages it
        transaction.set_properties(
            {**change.properties, LAST_SNAPSHOT: str(made), "gc.enabled": "false"}
        )
        commit_updates(table, transaction._updates, transaction._requirements)
    except (CommitFailedException, ValidationException):
        _discard(table, made, producer)
        return False
    return True


def commit_updates(table: "Table", updates: tuple[Any, ...], requirements: tuple[Any, ...]) -> None:
    """Change the table in its catalog, if it is still the one that was loaded.

    Raises ``CommitFailedException`` where a requirement does not hold.
    """
    requirements = (*requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
    if isinstance(table.catalog, RestCatalog):
        # Its server deletes versions of the metadata that are too old; pyiceberg would again.
        table.catalog.commit_table(table, requirements, updates)
    else:
        table._do_commit(updates=updates, requirements=requirements)


def _discard(table: "Table", made: int, producer: Any) -> None:
    """Delete what a lost change wrote, once it is sure that no snapshot has it."""
    try:
        landed = table.catalog.load_table(table.name()).metadata.snapshot_by_id(made)
    except NoSuchTableError:
        return
    written = [*producer._written_manifests, *producer._written_manifest_lists]
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
