"""Migration of the catalog of earlier versions, a SQLite file in the data directory.

Its tables move to the cluster's catalog. Their rows stay in the file under another catalog name, so
that a process of an earlier version finds no table there and cannot commit.
"""

import logging
import sqlite3
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from headwater.tables.catalog.metadata_catalog import MetadataCatalog
from headwater.tables.catalog.metadata_files import version_of
from headwater.tables.names import TableName, dotted

FILE_NAME: Final = "catalog.db"
TAKEN: Final = "headwater-taken-over"
"""The catalog name of migrated rows."""

_BUSY_SECONDS: Final = 10.0
_COUNT_TABLES: Final = (
    "SELECT count(*) FROM sqlite_master "
    "WHERE name IN ('iceberg_tables', 'iceberg_namespace_properties')"
)
_SELECT_TABLES: Final = (
    "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables "
    "WHERE catalog_name = ? AND metadata_location IS NOT NULL"
)
_SELECT_NAMESPACES: Final = (
    "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties "
    "WHERE catalog_name = ?"
)
_RENAME_TABLE: Final = (
    "UPDATE OR REPLACE iceberg_tables SET catalog_name = ? "
    "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)
_RENAME_NAMESPACE: Final = (
    "UPDATE OR REPLACE iceberg_namespace_properties SET catalog_name = ? "
    "WHERE catalog_name = ? AND namespace = ?"
)

logger = logging.getLogger(__name__)


def take_over(path: Path, catalog: MetadataCatalog, *, below: str | None) -> None:
    """Move the tables of a catalog file to the cluster's catalog.

    With ``below``, only tables whose metadata is under that location move, because the file may
    contain tables of several clusters. A table stays in the file if the cluster has another one of
    that name. Raises ``sqlite3.Error`` and what the catalog raises.
    """
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as file:
        if file.execute(_COUNT_TABLES).fetchone()[0] < 2:
            return
        # Until the rows are renamed, the lock blocks commits by processes of earlier versions.
        file.execute("BEGIN IMMEDIATE")
        rows = file.execute(_SELECT_TABLES, [catalog.name]).fetchall()
        ours = [row for row in rows if below is None or row[2].startswith(below)]
        found = _namespaces(file, catalog.name, {row[0] for row in ours}, every=below is None)
        _add_namespaces(catalog, found)
        for namespace, table, location in ours:
            if _take(catalog, (*namespace.split("."), table), location):
                file.execute(_RENAME_TABLE, [TAKEN, catalog.name, namespace, table])
        for namespace in found:
            file.execute(_RENAME_NAMESPACE, [TAKEN, catalog.name, namespace])
        file.execute("COMMIT")
    if ours:
        logger.info("Migrated the catalog file", extra={"file": path, "tables": len(ours)})


def _namespaces(
    file: sqlite3.Connection, name: str, wanted: Collection[str], *, every: bool
) -> dict[str, dict[str, str]]:
    """The properties of these namespaces, or of all."""
    found: dict[str, dict[str, str]] = {namespace: {} for namespace in wanted}
    for namespace, key, value in file.execute(_SELECT_NAMESPACES, [name]):
        if every or namespace in found:
            properties = found.setdefault(namespace, {})
            if (key, value) != ("exists", "true"):  # a SQL catalog's mark of an empty namespace
                properties[key] = value
    return found


def _add_namespaces(catalog: MetadataCatalog, found: dict[str, dict[str, str]]) -> None:
    for namespace in sorted(found):  # parents first, with their own properties
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(tuple(namespace.split(".")), found[namespace])


def _take(catalog: MetadataCatalog, name: TableName, location: str) -> bool:
    """Add a table to the cluster's catalog; returns whether it has this version or a later one."""
    with suppress(TableAlreadyExistsError):
        catalog.add_pointer(name, location)
        return True
    there = catalog.pointer(name)
    if there is None or there.rpartition("/")[0] != location.rpartition("/")[0]:
        logger.warning(
            "Cannot migrate a table, the cluster has another one of that name; register it under "
            "another name",
            extra={"table": dotted(name), "file": FILE_NAME, "metadata": location},
        )
        return False
    if version_of(there) < version_of(location):
        with suppress(CommitFailedException, NoSuchTableError):
            catalog.move_pointer(name, there, location)
    return True
