"""Commits to users' tables: requirements that must hold, and updates that are then applied.

Of two commits to one version of a table only one lands: the catalog replaces a table's metadata
file only if it is still the one that the commit started from.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.table import StagedTable
from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertTableUUID,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from headwater.errors import StoreError
from headwater.tables.catalog.errors import catalog_errors
from headwater.tables.names import TableName, dotted
from headwater.tables.rest.errors import BadRequest, Conflict, StateUnknown, Unsupported, no_table
from headwater.tables.rest.guard import Guard, metadata_places
from headwater.tables.rest.models import CommitTableRequest
from headwater.tables.rest.tables import Loaded, Tables

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class Commits:
    """Checks commits of clients, and passes them to the catalog."""

    tables: Tables

    def commit(self, name: TableName, request: CommitTableRequest) -> Loaded:
        """Raises ``Conflict`` if a requirement fails, or if another commit came first."""
        guard = self.tables.guard
        creates = any(isinstance(needed, AssertCreate) for needed in request.requirements)
        table = self.tables.find(name)
        guard.check_table_change(name, table.properties if table else None)
        self._check_updates(request.updates)
        if table is None and not creates:
            raise no_table(name)
        if table is None:
            return self._create(name, request)
        _check_files(guard, request.updates, table.location(), table.properties)
        # The commit must apply to the checked table, not to a later table of the same name.
        needed = (*request.requirements, AssertTableUUID(uuid=table.metadata.table_uuid))
        return self._apply(table, request.model_copy(update={"requirements": needed}))

    def _create(self, name: TableName, request: CommitTableRequest) -> Loaded:
        """The commit that ends a transaction which creates a table."""
        tables = self.tables
        properties = tables.namespaces.properties(name[:-1])
        updates = request.updates
        if not any(isinstance(update, SetLocationUpdate) for update in updates):
            location = tables.guard.default_location(name, properties)
            updates = (*updates, SetLocationUpdate(location=location))
        _check_files(tables.guard, updates, None, {})
        staged = StagedTable(
            identifier=name,
            metadata=TableMetadataV1.model_construct(last_column_id=-1, schema=Schema()),
            metadata_location="",
            io=load_file_io(tables.catalog.properties),
            catalog=tables.catalog,
        )
        return self._apply(staged, request.model_copy(update={"updates": updates}))

    def _check_updates(self, updates: tuple[TableUpdate, ...]) -> None:
        guard = self.tables.guard
        for update in updates:
            match update:
                case SetLocationUpdate(location=location):
                    guard.check_location(location)
                case UpgradeFormatVersionUpdate(format_version=version):
                    guard.check_format(version)
                case SetPropertiesUpdate(updates=properties):
                    guard.check_properties(properties)
                    guard.check_places(properties)
                case _:
                    pass

    def _apply(self, table: "Table", request: CommitTableRequest) -> Loaded:
        name = dotted(table.name())
        try:
            with catalog_errors(f"table {name}"):
                done = self.tables.catalog.commit_table(
                    table, request.requirements, request.updates
                )
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise Conflict(f"commit to {name} failed: {error}") from error
        except NoSuchTableError:
            raise no_table(table.name()) from None
        except NotImplementedError as error:
            raise Unsupported(str(error)) from error
        except StoreError as error:
            raise StateUnknown(str(error)) from error
        except (ValueError, TypeError, KeyError, IndexError) as error:
            # pyiceberg raises these for updates that do not fit the table or each other.
            raise BadRequest(f"cannot update {name}: {error}") from error
        return Loaded(done.metadata, done.metadata_location, self.tables.vending)


def _check_files(
    guard: Guard,
    updates: tuple[TableUpdate, ...],
    location: str | None,
    properties: Mapping[str, str],
) -> None:
    """Raises ``Forbidden`` for an update that names a file outside of the table's own locations.

    ``location`` and ``properties`` are those before the commit; a commit that creates the table has
    no location. Locations from before and after the commit are allowed.
    """
    places = set() if location is None else metadata_places(location, properties)
    after = dict(properties)
    named = []
    for update in updates:
        match update:
            case SetLocationUpdate(location=moved):
                location = moved
            case SetPropertiesUpdate(updates=changed):
                after |= changed
            case AddSnapshotUpdate(snapshot=snapshot):
                named.append(snapshot.manifest_list)
            case SetStatisticsUpdate(statistics=statistics):
                named.append(statistics.statistics_path)
            case SetPartitionStatisticsUpdate(partition_statistics=partition_statistics):
                named.append(partition_statistics.statistics_path)
            case _:
                pass
    assert location is not None
    guard.check_files(named, places | metadata_places(location, after))
