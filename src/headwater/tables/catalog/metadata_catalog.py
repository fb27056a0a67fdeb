"""An Iceberg catalog inside the cluster's metadata store.

All brokers and commands of a cluster see the same tables, and metadata snapshots include them.
``pointers`` describes the keys, ``recovery`` the effect of a restore.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from pyiceberg.catalog import Catalog, PropertiesUpdateSummary
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from headwater.errors import CatalogUnavailable, StoreUnavailable, UnknownOutcome
from headwater.meta.store_thread import StoreThread
from headwater.tables.catalog.metadata_files import read_metadata
from headwater.tables.catalog.pointers import CatalogOutdated, Pointers
from headwater.tables.commit.iceberg_internals import StagingCatalog
from headwater.tables.names import TableName, dotted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.view import View
    from pyiceberg.view.metadata import ViewVersion

T = TypeVar("T")

RECOVERIES: Final = 3
"""Recoveries per call, because another restore may begin in between."""

logger = logging.getLogger(__name__)


class MetadataCatalog(StagingCatalog):
    """The tables of a cluster. Methods block; any thread may call them.

    Besides pyiceberg's exceptions, a call raises ``CatalogUnavailable`` if the metadata store does
    not answer. The outcome of a change may then be unknown.
    """

    def __init__(
        self,
        name: str,
        store: StoreThread,
        recover: "Callable[[MetadataCatalog, Pointers], None]",
        **properties: str,
    ) -> None:
        """``recover`` updates the catalog to the cluster's restore epoch."""
        super().__init__(name, **properties)
        self._store = store
        self._recover = recover
        self._pointers = Pointers(store.meta)

    def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine that uses the metadata store."""
        try:
            return self._store.run(work)
        except (StoreUnavailable, UnknownOutcome) as error:
            raise CatalogUnavailable(f"the metadata store: {error}") from error

    def close(self) -> None:
        self._store.close()

    def _run(self, work: Callable[[Pointers], Coroutine[Any, Any, T]]) -> T:
        for _ in range(RECOVERIES):
            try:
                return self.ask(work(self._pointers))
            except CatalogOutdated:
                self._recover_catalog()
        raise CatalogUnavailable("the table catalog is being recovered after a restore")

    def _recover_catalog(self) -> None:
        cluster, catalog = self.ask(self._pointers.epochs())
        if cluster != catalog:
            logger.info("Recovering the table catalog", extra={"restore_epoch": cluster})
            try:
                self._recover(self, self._pointers.for_recovery(cluster))
            except CatalogOutdated:
                return  # another process recovered it

    def pointer(self, name: TableName) -> str | None:
        """The location of a table's metadata; None if there is no table."""
        return self._run(lambda pointers: pointers.table(name))

    def add_pointer(self, name: TableName, location: str) -> None:
        """Register a table without reading its metadata file.

        Raises ``TableAlreadyExistsError`` if the name has other metadata.
        """
        self._run(lambda pointers: pointers.add_table(name, location))

    def move_pointer(self, name: TableName, old: str, new: str) -> None:
        """Raises ``CommitFailedException`` if a table's metadata is not at ``old``."""
        self._run(lambda pointers: pointers.move_pointer(name, old, new))

    # Tables

    def create_table(
        self,
        identifier: str | Identifier,
        schema: "Schema | pa.Schema",
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        name = _levels(identifier)
        above = self.load_namespace_properties(name[:-1]).get("location")
        base = above or "/".join((self.properties["warehouse"].rstrip("/"), *name[:-1]))
        table_location = (location or f"{base.rstrip('/')}/{name[-1]}").rstrip("/")
        metadata = new_table_metadata(
            location=table_location,
            schema=self.iceberg_schema(schema, int(properties.get("format-version", 2))),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=properties,
        )
        file = load_location_provider(table_location, properties).new_table_metadata_file_location()
        self.write_metadata(metadata, self.file_io({}, file), file)
        self.add_pointer(name, file)
        return self.load_table(name)

    def register_table(
        self,
        identifier: str | Identifier,
        metadata_location: str,
        overwrite: bool = False,  # noqa: FBT001, FBT002 - pyiceberg's own signature
    ) -> Table:
        if overwrite:
            raise NotImplementedError("an existing table cannot be overwritten")
        name = _levels(identifier)
        self.add_pointer(name, metadata_location)
        return self.load_table(name)

    def load_table(self, identifier: str | Identifier) -> Table:
        name = _levels(identifier)
        location = self.pointer(name)
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        metadata = read_metadata(location, self.properties)
        io = self.file_io(metadata.properties, location)
        return Table(name, metadata, location, io, self)

    def table_exists(self, identifier: str | Identifier) -> bool:
        return self.pointer(_levels(identifier)) is not None

    def drop_table(self, identifier: str | Identifier) -> None:
        name = _levels(identifier)
        self._run(lambda pointers: pointers.drop_table(name))

    def rename_table(
        self, from_identifier: str | Identifier, to_identifier: str | Identifier
    ) -> Table:
        old, new = _levels(from_identifier), _levels(to_identifier)
        self._run(lambda pointers: pointers.rename_table(old, new))
        return self.load_table(new)

    def commit_table(
        self,
        table: Table,
        requirements: "tuple[TableRequirement, ...]",
        updates: "tuple[TableUpdate, ...]",
    ) -> CommitTableResponse:
        name = _levels(table.name())
        try:
            current = self.load_table(name)
        except NoSuchTableError:
            current = None
        staged = self.stage(current, name, requirements, updates)
        if current and staged.metadata == current.metadata:
            return _answer(current)
        self.write_metadata(staged.metadata, staged.io, staged.metadata_location)
        try:
            self.ask(self._landing(name, current, staged.metadata_location))
        except CatalogOutdated:
            # The restored table may differ from the one that the commit is based on.
            raise CommitFailedException("the cluster was restored during the commit") from None
        return _answer(staged)

    async def _landing(self, name: TableName, current: Table | None, location: str) -> None:
        if current is None:
            await self._pointers.add_table(name, location)
        else:
            await self._pointers.move_pointer(name, current.metadata_location, location)

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        levels = _levels(namespace)
        self.load_namespace_properties(levels)
        return list(self._run(lambda pointers: pointers.tables(levels)))

    # Namespaces

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        levels = _levels(namespace)
        self._run(lambda pointers: pointers.add_namespace(levels, properties))

    def drop_namespace(self, namespace: str | Identifier) -> None:
        levels = _levels(namespace)
        self._run(lambda pointers: pointers.drop_namespace(levels))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        levels = _levels(namespace)
        if levels:
            self.load_namespace_properties(levels)
        return list(self._run(lambda pointers: pointers.namespaces(levels)))

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        levels = _levels(namespace)
        if not levels:
            raise NoSuchNamespaceError("a table needs a namespace")
        return self._run(lambda pointers: pointers.namespace(levels))

    def update_namespace_properties(
        self,
        namespace: str | Identifier,
        removals: set[str] | None = None,
        updates: Properties = EMPTY_DICT,
    ) -> PropertiesUpdateSummary:
        levels = _levels(namespace)
        before = self.load_namespace_properties(levels)
        summary, after = self.changed_properties(before, removals, updates)
        self._run(lambda pointers: pointers.set_properties(levels, before, after))
        return summary

    # Views are not supported.

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        _no_views(namespace)

    def load_view(self, identifier: str | Identifier) -> "View":
        _no_views(identifier)

    def view_exists(self, identifier: str | Identifier) -> bool:
        _no_views(identifier)

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> "View":
        _no_views(identifier, metadata_location)

    def drop_view(self, identifier: str | Identifier) -> None:
        _no_views(identifier)

    def create_view(
        self,
        identifier: str | Identifier,
        schema: "Schema | pa.Schema",
        view_version: "ViewVersion",
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> "View":
        _no_views(identifier, schema, view_version, location, properties)


def _levels(identifier: str | Identifier) -> TableName:
    return Catalog.identifier_to_tuple(identifier)


def _answer(table: Table) -> CommitTableResponse:
    # The model names its fields as the REST specification does.
    return CommitTableResponse.model_validate(
        {"metadata": table.metadata, "metadata-location": table.metadata_location}
    )


def _no_views(*_asked: object) -> NoReturn:
    raise NotImplementedError("the cluster's catalog does not support views")
