"""All uses of pyiceberg's private names.

No other module uses a name of pyiceberg that begins with an underscore. pyiceberg is pinned to one
minor version for this reason, and ``test_iceberg_internals.py`` fails if a name disappears.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.catalog import MetastoreCatalog, PropertiesUpdateSummary
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles, _ManifestMergeManager

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import StagedTable, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier

FULL_MANIFEST: Final = 400
SMALL_MANIFESTS: Final = 20


class _Transaction(Transaction):
    """A transaction that does not copy the table metadata while nothing is staged.

    pyiceberg copies it a dozen times per commit, so a commit's cost grows with each kept snapshot.
    """

    @property
    def table_metadata(self) -> "TableMetadata":
        """The metadata with staged changes; read-only."""
        return super().table_metadata if self._updates else self._table.metadata


class _Append(_FastAppendFiles):
    """An append that merges manifests once there are ``SMALL_MANIFESTS`` small ones.

    pyiceberg's own merge rewrites a manifest again and again until it has megabytes. Here a
    manifest with ``FULL_MANIFEST`` entries is not rewritten again, so the cost of a commit does not
    grow with the table.
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
            if one.added_snapshot_id == self._snapshot_id:  # written by this append
                self._io.delete(one.manifest_path)
                self._written_manifests.remove(one.manifest_path)
        return [merged, *rest]


class StagedChange:
    """A table snapshot with a chosen id that is not committed yet."""

    def __init__(
        self,
        table: "Table",
        snapshot_id: int,
        *,
        added: "Sequence[DataFile]",
        removed: "Sequence[DataFile]",
        summary: dict[str, str],
    ) -> None:
        self._change = _Transaction(table)
        self._producer: Any = (
            self._change.update_snapshot(snapshot_properties=summary).overwrite()
            if removed
            else _Append(Operation.APPEND, self._change, table.io, snapshot_properties=summary)
        )
        self._producer._snapshot_id = snapshot_id
        if removed and not added:
            self._producer._operation = Operation.DELETE
        for file in added:
            self._producer.append_data_file(file)
        for file in removed:
            self._producer.delete_data_file(file)

    def write(
        self, properties: Mapping[str, str]
    ) -> "tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]":
        """Write the snapshot's manifests; returns the table updates and their requirements."""
        self._producer.commit()  # stages it
        self._change.set_properties(dict(properties))
        return self._change._updates, self._change._requirements

    @property
    def written(self) -> list[str]:
        """The locations of the files that were written."""
        return [*self._producer._written_manifests, *self._producer._written_manifest_lists]


def commit_and_clean(
    table: "Table",
    updates: "tuple[TableUpdate, ...]",
    requirements: "tuple[TableRequirement, ...]",
) -> None:
    """Commit to the catalog, and delete old metadata files."""
    table._do_commit(updates=updates, requirements=requirements)


class StagingCatalog(MetastoreCatalog, ABC):
    """A catalog that writes metadata files and stores the location of the current one."""

    def stage(
        self,
        current: "Table | None",
        name: "Identifier",
        requirements: "tuple[TableRequirement, ...]",
        updates: "tuple[TableUpdate, ...]",
    ) -> "StagedTable":
        """Apply updates without writing. Raises what a requirement raises."""
        return self._update_and_stage_table(current, name, requirements, updates)

    def write_metadata(self, metadata: "TableMetadata", io: "FileIO", location: str) -> None:
        self._write_metadata(metadata, io, location)

    def file_io(self, properties: Mapping[str, str], location: str) -> "FileIO":
        """The ``FileIO`` of a table with these properties."""
        return self._load_file_io(dict(properties), location)

    def iceberg_schema(self, schema: Any, format_version: int) -> Schema:
        """Convert an Arrow schema to an Iceberg schema, if necessary."""
        return self._convert_schema_if_needed(schema, format_version)  # type: ignore[arg-type]

    def changed_properties(
        self, current: Mapping[str, str], removals: set[str] | None, updates: Mapping[str, str]
    ) -> tuple[PropertiesUpdateSummary, dict[str, str]]:
        return self._get_updated_props_and_update_summary(dict(current), removals, dict(updates))
