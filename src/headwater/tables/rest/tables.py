"""Tables: listed, loaded, created, registered, renamed and dropped."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyiceberg.exceptions import (
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from headwater.tables.names import TableName, dotted
from headwater.tables.rest.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    Unsupported,
    no_namespace,
    no_table,
)
from headwater.tables.rest.guard import Guard, checked_namespace, checked_table, is_topic
from headwater.tables.rest.models import (
    CreateTableRequest,
    RegisterTableRequest,
    RenameTableRequest,
)
from headwater.tables.rest.namespaces import Namespaces
from headwater.tables.rest.pages import Page, page_of
from headwater.tables.rest.purge import MAX_METADATA_BYTES, Purges
from headwater.tables.rest.vending import Vending

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table as it is sent to a client."""

    metadata: TableMetadata
    metadata_location: str | None
    vending: Vending

    @property
    def etag(self) -> str:
        """Differs for each version of the table, and for each selection of its snapshots."""
        shown = f"{self.metadata_location}\0{len(self.metadata.snapshots)}"
        return f'"{hashlib.sha256(shown.encode()).hexdigest()[:32]}"'

    def answer(self) -> dict[str, object]:
        metadata = msgspec.Raw(self.metadata.model_dump_json().encode())
        answer: dict[str, object] = {"metadata": metadata, "config": self.vending.table_config}
        if self.metadata_location is not None:
            answer["metadata-location"] = self.metadata_location
        if self.vending.storage_credentials:
            answer["storage-credentials"] = self.vending.storage_credentials
        return answer


@dataclass(frozen=True, slots=True)
class Tables:
    """Operations on the tables of a catalog."""

    catalog: "Catalog"
    namespaces: Namespaces
    guard: Guard
    vending: Vending
    purges: Purges

    def list(self, namespace: tuple[str, ...], page: Page) -> dict[str, object]:
        try:
            found = self.catalog.list_tables(namespace)
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None
        names, token = page_of(found, page)
        identifiers = [{"namespace": name[:-1], "name": name[-1]} for name in names]
        return {"identifiers": identifiers, "next-page-token": token}

    def load(self, name: TableName, *, only_refs: bool = False) -> Loaded:
        """A table; with ``only_refs``, only the snapshots that a branch or tag names."""
        table = self.table(name)
        metadata = table.metadata
        if only_refs:
            named = {ref.snapshot_id for ref in metadata.refs.values()}
            kept = [shot for shot in metadata.snapshots if shot.snapshot_id in named]
            metadata = metadata.model_copy(update={"snapshots": kept})
        return Loaded(metadata, table.metadata_location, self.vending)

    def table(self, name: TableName) -> "Table":
        """Raises ``NotFound``."""
        if found := self.find(name):
            return found
        raise no_table(name)

    def find(self, name: TableName) -> "Table | None":
        try:
            return self.catalog.load_table(name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def check_exists(self, name: TableName) -> None:
        """Raises ``NotFound``."""
        if not self.catalog.table_exists(name):
            raise no_table(name)

    def create(self, namespace: tuple[str, ...], request: CreateTableRequest) -> Loaded:
        name = checked_table(namespace, request.name)
        self.guard.check_table_change(name, None)
        self.guard.check_format(request.properties.get("format-version"))
        self.guard.check_properties(request.properties)
        self.guard.check_places(request.properties)
        location = (
            self.guard.default_location(name, self.namespaces.properties(namespace))
            if request.location is None
            else self.guard.check_location(request.location)
        )
        made: dict[str, Any] = {
            "schema": request.table_schema,
            "location": location,
            "partition_spec": request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            "sort_order": request.write_order or UNSORTED_SORT_ORDER,
            "properties": dict(request.properties),
        }
        try:
            if request.stage_create:
                return self._stage(name, made)
            table = self.catalog.create_table(name, **made)
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None
        except TableAlreadyExistsError:
            raise _exists(name) from None
        except (ValueError, TypeError, KeyError) as error:
            # pyiceberg raises these if schema, partitions and sort order do not fit each other.
            raise BadRequest(f"cannot create {dotted(name)}: {error}") from error
        return Loaded(table.metadata, table.metadata_location, self.vending)

    def _stage(self, name: TableName, made: dict[str, Any]) -> Loaded:
        """Begin a transaction that creates a table. The catalog is not changed."""
        self.namespaces.properties(name[:-1])
        if self.find(name) is not None:
            raise _exists(name)
        _prepare(made["location"])
        return Loaded(new_table_metadata(**made), None, self.vending)

    def register(self, namespace: tuple[str, ...], request: RegisterTableRequest) -> Loaded:
        name = checked_table(namespace, request.name)
        self.guard.check_table_change(name, None)
        if request.overwrite:
            raise Unsupported("an existing table is not overwritten; drop it first")
        metadata = self._read_metadata(self.guard.check_location(request.metadata_location))
        if is_topic(metadata.properties):
            raise Forbidden(
                "that metadata is a topic's, and only Headwater registers topics' tables"
            )
        self.guard.check_properties(metadata.properties)
        self.guard.check_places(metadata.properties)
        self.guard.check_location(metadata.location)
        try:
            table = self.catalog.register_table(name, request.metadata_location)
        except NoSuchNamespaceError:
            raise no_namespace(namespace) from None
        except TableAlreadyExistsError:
            raise _exists(name) from None
        return Loaded(table.metadata, table.metadata_location, self.vending)

    def _read_metadata(self, location: str) -> TableMetadata:
        file = load_file_io(self.catalog.properties, location).new_input(location)
        try:
            if len(file) > MAX_METADATA_BYTES:
                raise BadRequest(
                    f"{location} has {len(file)} bytes; metadata has at most {MAX_METADATA_BYTES}"
                )
            return FromInputFile.table_metadata(file)
        except FileNotFoundError:
            raise NotFound(f"no metadata file at {location}") from None
        except ValueError:
            raise BadRequest(f"{location} is not a table's metadata") from None

    def rename(self, request: RenameTableRequest) -> None:
        source = checked_table(checked_namespace(request.source.namespace), request.source.name)
        target = checked_table(
            checked_namespace(request.destination.namespace), request.destination.name
        )
        self.guard.check_table_change(source, self.table(source).properties)
        self.guard.check_table_change(target, None)
        try:
            self.catalog.rename_table(source, target)
        except NoSuchTableError:
            raise no_table(source) from None
        except NoSuchNamespaceError:
            raise no_namespace(target[:-1]) from None
        except TableAlreadyExistsError:
            raise _exists(target) from None

    def drop(self, name: TableName, *, with_files: bool) -> None:
        table = self.table(name)
        self.guard.check_table_change(name, table.properties)
        if with_files and table.properties.get("gc.enabled", "true").lower() == "false":
            raise BadRequest(f"Cannot purge {dotted(name)}: gc.enabled is false")
        if with_files:
            self.purges.reserve()
        try:
            self.catalog.drop_table(name)
        except BaseException as error:
            if with_files:
                self.purges.release()
            if isinstance(error, NoSuchTableError):
                raise no_table(name) from None
            raise
        if with_files:
            self.purges.purge(table)


def _prepare(location: str) -> None:
    """Make the directory of a new local table, because some engines do not."""
    if location.startswith("file://"):
        Path(location.removeprefix("file://"), "metadata").mkdir(parents=True, exist_ok=True)


def _exists(name: TableName) -> Conflict:
    return Conflict(f"Table already exists: {dotted(name)}", "AlreadyExistsException")
