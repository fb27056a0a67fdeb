"""A topic's table: making it, and knowing it again.

A table says in its properties whose it is. One that is not what Headwater made is never written
to: every such case is a ``TableMismatch`` with one line that says what is wrong and what helps.
"""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.types import IntegerType, LongType
from sqlalchemy.exc import IntegrityError

from headwater.errors import TableMismatch
from headwater.tables.catalog.errors import catalog_errors
from headwater.tables.catalog.metadata_files import metadata_files
from headwater.tables.commit.statistics import METRICS
from headwater.tables.locations import table_location
from headwater.tables.names import TableName, dotted, retired_name
from headwater.tables.partitioning import SORT_ORDER, partition_spec
from headwater.tables.schema import ICEBERG

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

FORMAT_VERSION: Final = 2

CLUSTER: Final = "headwater.cluster-id"
TOPIC: Final = "headwater.topic"
TOPIC_ID: Final = "headwater.topic-id"
FIRST_STREAM: Final = "headwater.first-stream"
PARTITION_BY: Final = "headwater.partition-by"
EPOCH: Final = "headwater.restore-epoch"
"""The restore epoch that the table's files and watermarks are of; absent: 0."""
LAST_SNAPSHOT: Final = "headwater.snapshot"
"""The snapshot that the last commit made."""

_PROPERTIES: Final = {
    "format-version": str(FORMAT_VERSION),
    "gc.enabled": "false",
    "schema.name-mapping.default": create_mapping_from_schema(ICEBERG).model_dump_json(),
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    **METRICS,
}

_RIVALS = 4
"""How often another process may change the name's table while this one looks at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOwner:
    """Whose a table is."""

    cluster_id: str
    topic: str
    topic_id: str
    first_stream: int
    """The stream of partition 0. Streams are numbered upwards and never twice, so of two topics
    that had one name the later has the greater one."""
    epoch: int = 0
    """The cluster's restore epoch."""


def ensure_table(
    catalog: "Catalog", name: TableName, owner: TableOwner, *, objects_url: str, partitioning: str
) -> "Table":
    """A topic's table, created where there is none.

    ``partitioning`` counts when it is created; later the table's own holds. The table of an
    earlier topic of the same name is renamed out of the way.

    Raises ``TableMismatch`` where the name is taken by a table that is not this topic's, where
    the table was changed so that the topic's files do not fit it, or where it was dropped;
    ``CatalogUnavailable``.
    """
    with catalog_errors(f"table {dotted(name)}"):
        for _ in range(_RIVALS):
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                _refuse_dropped(catalog, name, table_location(objects_url, owner.topic_id))
                _create(catalog, name, owner, objects_url, partitioning)
                continue
            if not _is_predecessor(table, owner):
                check_table(table, name, owner)
                return table
            _retire(catalog, name, table.properties[TOPIC_ID])
    raise TableMismatch(
        f"table {dotted(name)} is of a deleted topic {owner.topic} and cannot be renamed to "
        f"{dotted(retired_name(name, table.properties[TOPIC_ID]))}; drop either without purging"
    )


def load_table(catalog: "Catalog", name: TableName, owner: TableOwner) -> "Table":
    """A topic's table as it stands. Raises as ``ensure_table``, also where there is none."""
    with catalog_errors(f"table {dotted(name)}"):
        try:
            table = catalog.load_table(name)
        except NoSuchTableError:
            raise TableMismatch(
                f"table {dotted(name)} of topic {owner.topic} is gone: someone dropped or renamed "
                "it; register its newest metadata file again under that name"
            ) from None
    check_table(table, name, owner)
    return table


def drop_table(catalog: "Catalog", name: TableName, owner: TableOwner) -> bool:
    """Take a deleted topic's table out of the catalog; its files are the log's to delete.

    Returns whether there was one; a table of that name that is not this topic's stays.
    """
    with catalog_errors(f"table {dotted(name)}"):
        try:
            table = catalog.load_table(name)
            if table.properties.get(CLUSTER) != owner.cluster_id:
                return False
            if table.properties.get(TOPIC_ID) != owner.topic_id:
                return False
            catalog.drop_table(name)
        except NoSuchTableError:
            return False
    return True


def _is_predecessor(table: "Table", owner: TableOwner) -> bool:
    found = table.properties
    return (
        (found.get(CLUSTER), found.get(TOPIC)) == (owner.cluster_id, owner.topic)
        and found.get(TOPIC_ID, owner.topic_id) != owner.topic_id
        and int(found.get(FIRST_STREAM, owner.first_stream)) < owner.first_stream
    )


def _retire(catalog: "Catalog", name: TableName, topic_id: str) -> None:
    """Rename a table out of the way, unless a rival has.

    A rival may even have made the next one since: that one is safe, since the name to which it
    would be renamed is taken by the one before it.
    """
    with contextlib.suppress(NoSuchTableError, TableAlreadyExistsError):
        catalog.rename_table(name, retired_name(name, topic_id))


def _create(
    catalog: "Catalog", name: TableName, owner: TableOwner, objects_url: str, partitioning: str
) -> None:
    """Create a table, unless a rival has."""
    properties = _PROPERTIES | {
        CLUSTER: owner.cluster_id,
        TOPIC: owner.topic,
        TOPIC_ID: owner.topic_id,
        FIRST_STREAM: str(owner.first_stream),
        EPOCH: str(owner.epoch),
        PARTITION_BY: partitioning,
    }
    for depth in range(1, len(name)):
        # A SQL catalog looks first and then inserts: of two rivals one meets the other's row.
        with contextlib.suppress(NamespaceAlreadyExistsError, IntegrityError):
            catalog.create_namespace(name[:depth])
    with contextlib.suppress(TableAlreadyExistsError):
        catalog.create_table(
            name,
            ICEBERG,
            location=table_location(objects_url, owner.topic_id),
            partition_spec=partition_spec(partitioning),
            sort_order=SORT_ORDER,
            properties=properties,
        )


def _refuse_dropped(catalog: "Catalog", name: TableName, location: str) -> None:
    """A place with metadata of a later version had a table that held records."""
    newest = next(iter(metadata_files(f"{location}/metadata", catalog.properties)), None)
    if newest is not None and newest.version > 0:
        raise TableMismatch(
            f"table {dotted(name)} was dropped or renamed; register it again under that name, "
            f"its newest metadata is {newest.location}"
        )


def check_table(table: "Table", name: TableName, owner: TableOwner) -> None:
    """Raises ``TableMismatch`` unless this is the topic's table and its files fit it."""
    found, text = table.properties, f"table {dotted(name)}"
    if CLUSTER not in found or TOPIC_ID not in found:
        raise TableMismatch(
            f"{text} was not made by Headwater; give topic {owner.topic} another "
            "headwater.table.name, or rename that table"
        )
    if found[CLUSTER] != owner.cluster_id:
        raise TableMismatch(
            f"{text} belongs to cluster {found[CLUSTER]}; set another tables.name or "
            "headwater.table.name"
        )
    if found.get(TOPIC) != owner.topic:
        raise TableMismatch(
            f"{text} is that of topic {found.get(TOPIC)}; give topic {owner.topic} another "
            "headwater.table.name"
        )
    if found[TOPIC_ID] != owner.topic_id:
        raise TableMismatch(
            f"{text} is that of topic {owner.topic} as it was created again ({found[TOPIC_ID]}); "
            f"the one that is meant here ({owner.topic_id}) is deleted"
        )
    if table.format_version != FORMAT_VERSION:
        raise TableMismatch(f"{text} was changed to format version {table.format_version}")
    if reason := _misfit(table):
        raise TableMismatch(f"{text} was changed: {reason}; undo the change")


def _misfit(table: "Table") -> str | None:
    """Why files with our columns do not fit a table; None where they do."""
    schema = table.schema()
    known = set(ICEBERG.field_ids)
    for field in ICEBERG.fields:
        if field.field_id not in schema.field_ids:
            return f"column {field.name} is gone"
        there = schema.find_field(field.field_id)
        widened = isinstance(field.field_type, IntegerType) and there.field_type == LongType()
        if there.field_type != field.field_type and not widened:
            return f"column {field.name} is {there.field_type}, not {field.field_type}"
    for there in schema.fields:
        if there.required and there.field_id not in known:
            return f"column {there.name} is required and no topic has it"
    wanted = partition_spec(table.properties.get(PARTITION_BY, "partition"))
    if not table.spec().compatible_with(wanted):
        return f"it is partitioned by {table.spec()}"
    return None
