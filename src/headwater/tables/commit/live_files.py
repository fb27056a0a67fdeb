"""The files that a table refers to."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from headwater.tables.locations import object_location

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table


def live_files(table: "Table", keys: Collection[str], *, objects_url: str) -> "dict[str, DataFile]":
    """Entries of the current snapshot for those ``keys`` that it has."""
    wanted = {object_location(objects_url, key): key for key in keys}
    snapshot = table.metadata.current_snapshot()
    if snapshot is None or not wanted:
        return {}
    return {
        wanted[file.file_path]: file
        for manifest in snapshot.manifests(table.io)
        for file in _live(table, manifest)
        if file.file_path in wanted
    }


def every_live_file(table: "Table") -> "dict[str, DataFile]":
    """Every entry of the current snapshot, by location."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return {}
    return {
        file.file_path: file
        for manifest in snapshot.manifests(table.io)
        for file in _live(table, manifest)
    }


def every_kept_file(table: "Table") -> set[str]:
    """Locations of files that are live in any kept snapshot."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return {file.file_path for manifest in manifests.values() for file in _live(table, manifest)}


def unreferenced(table: "Table", keys: Collection[str], *, objects_url: str) -> frozenset[str]:
    """The ``keys`` that are live in no kept snapshot, so that they can be deleted."""
    rest = {object_location(objects_url, key): key for key in keys}
    seen: set[str] = set()
    for snapshot in reversed(table.metadata.snapshots):
        if not rest:
            break
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                for file in _live(table, manifest):
                    rest.pop(file.file_path, None)
    return frozenset(rest.values())


def _live(table: "Table", manifest: "ManifestFile") -> "Iterator[DataFile]":
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        yield entry.data_file
