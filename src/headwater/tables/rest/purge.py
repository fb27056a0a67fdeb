"""Deleting the files of a dropped table: its own, and nobody else's."""

import logging
from typing import TYPE_CHECKING

from headwater.tables.rest.answers import Forbidden
from headwater.tables.rest.guard import Guard

if TYPE_CHECKING:
    from pyiceberg.table import Table

logger = logging.getLogger(__name__)


def purge(table: "Table", guard: Guard) -> None:
    """Delete what the table's metadata names below the table's own location.

    A table may also name files of others, a topic's among them, which were added to it where
    they lie: those stay. What cannot be deleted is left behind, since the table is gone already.
    """
    left = 0
    for location in sorted(_files(table)):
        try:
            if location.startswith(table.location().rstrip("/") + "/"):
                table.io.delete(guard.check_location(location))
        except (OSError, Forbidden):
            left += 1
    if left:
        logger.warning(
            "Files of a purged table stay", extra={"table": ".".join(table.name()), "files": left}
        )


def _files(table: "Table") -> set[str]:
    """Every file that any snapshot names, the manifests and the metadata."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found |= {statistics.statistics_path for statistics in metadata.statistics}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        try:
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                found |= {entry.data_file.file_path for entry in entries}
        except OSError:
            continue  # an earlier purge went this far, or someone deleted its files
    return found
