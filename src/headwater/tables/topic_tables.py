"""A topic's table: creating, loading and checking it.

Table properties name the owner of a table. A table that Headwater did not create, or that was
changed incompatibly, is never written to: ``TableMismatch`` says what is wrong and what to do.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
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
"""The restore epoch of the table's files and watermarks; 0 if absent."""
LAST_SNAPSHOT: Final = "headwater.snapshot"
"""The table snapshot of Headwater's last commit."""

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
"""Attempts if other processes change the table at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOwner:
    """The topic that a table belongs to."""

    cluster_id: str
    topic: str
    topic_id: str
    first_stream: int
    """The stream of partition 0. Stream numbers only rise, so of two topics with the same name
    the later one has the greater number."""
    epoch: int = 0
    """The cluster's restore epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """The name of a topic's table in a catalog. The table need not exist."""

    catalog: "Catalog"
    name: TableName
    owner: TableOwner
    objects_url: str
    random: Random = field(default_factory=Random)
    sleep: Callable[[float], None] = time.sleep

    @property
    def exists(self) -> bool:
        """Whether the catalog has a table of this name, of any owner."""
        with catalog_errors(f"table {dotted(self.name)}"):
            return self.catalog.table_exists(self.name)


def ensure_table(target: TopicTable, partitioning: str) -> "Table":
    """Load a topic's table, or create it with this partitioning.

    The table of an earlier topic of the same name is renamed.

    Raises ``TableMismatch`` if the name belongs to another table, if the table was changed so that
    the topic's files no longer fit, or if it was dropped; ``CatalogUnavailable``.
    """
    catalog, name, owner = target.catalog, target.name, target.owner
    with catalog_errors(f"table {dotted(name)}"):
        for _ in range(_RIVALS):
            try:
                table = catalog.load_table(name)
            except NoSuchTableError:
                _refuse_dropped(catalog, name, table_location(target.objects_url, owner.topic_id))
                _create(target, partitioning)
                continue
            if not _is_predecessor(table, owner):
                check_table(table, name, owner)
                return table
            _retire(catalog, name, table.properties[TOPIC_ID])
    raise TableMismatch(
        f"table {dotted(name)} belongs to a deleted topic {owner.topic} and cannot be renamed to "
        f"{dotted(retired_name(name, table.properties[TOPIC_ID]))}, which exists; drop one of "
        "them without purging"
    )


def load_table(target: TopicTable) -> "Table":
    """Load a topic's table. Raises as ``ensure_table``; ``TableMismatch`` also if it is missing."""
    with catalog_errors(f"table {dotted(target.name)}"):
        try:
            table = target.catalog.load_table(target.name)
        except NoSuchTableError:
            raise TableMismatch(
                f"table {dotted(target.name)} of topic {target.owner.topic} was dropped or "
                "renamed; register its newest metadata file under that name again"
            ) from None
    check_table(table, target.name, target.owner)
    return table


def _is_predecessor(table: "Table", owner: TableOwner) -> bool:
    found = table.properties
    return (
        (found.get(CLUSTER), found.get(TOPIC)) == (owner.cluster_id, owner.topic)
        and found.get(TOPIC_ID, owner.topic_id) != owner.topic_id
        and int(found.get(FIRST_STREAM, owner.first_stream)) < owner.first_stream
    )


def _retire(catalog: "Catalog", name: TableName, topic_id: str) -> None:
    """Rename a predecessor's table, unless another process did.

    If that process has already created the next table, this rename fails because its target name
    exists.
    """
    with contextlib.suppress(NoSuchTableError, TableAlreadyExistsError):
        catalog.rename_table(name, retired_name(name, topic_id))


def _create(target: TopicTable, partitioning: str) -> None:
    """Create a table, unless another process did."""
    catalog, name, owner = target.catalog, target.name, target.owner
    properties = _PROPERTIES | {
        CLUSTER: owner.cluster_id,
        TOPIC: owner.topic,
        TOPIC_ID: owner.topic_id,
        FIRST_STREAM: str(owner.first_stream),
        EPOCH: str(owner.epoch),
        PARTITION_BY: partitioning,
    }
    for depth in range(1, len(name)):
        # A SQL catalog reads before it inserts, so one of two processes may get an IntegrityError.
        with contextlib.suppress(NamespaceAlreadyExistsError, IntegrityError):
            catalog.create_namespace(name[:depth])
    with contextlib.suppress(TableAlreadyExistsError):
        catalog.create_table(
            name,
            ICEBERG,
            location=table_location(target.objects_url, owner.topic_id),
            partition_spec=partition_spec(partitioning),
            sort_order=SORT_ORDER,
            properties=properties,
        )


def _refuse_dropped(catalog: "Catalog", name: TableName, location: str) -> None:
    """Raises ``TableMismatch`` if the location has metadata of a table that had records."""
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
            f"{text} belongs to topic {found.get(TOPIC)}; give topic {owner.topic} another "
            "headwater.table.name"
        )
    if found[TOPIC_ID] != owner.topic_id:
        raise TableMismatch(
            f"{text} belongs to a newer topic {owner.topic} with id {found[TOPIC_ID]}; the topic "
            f"with id {owner.topic_id} is deleted"
        )
    if table.format_version != FORMAT_VERSION:
        raise TableMismatch(f"{text} was changed to format version {table.format_version}")
    if reason := _misfit(table):
        raise TableMismatch(f"{text} was changed: {reason}; undo the change")


def _misfit(table: "Table") -> str | None:
    """Why files with Headwater's columns do not fit a table; None if they do."""
    schema = table.schema()
    known = set(ICEBERG.field_ids)
    for wanted in ICEBERG.fields:
        if wanted.field_id not in schema.field_ids:
            return f"column {wanted.name} is gone"
        there = schema.find_field(wanted.field_id)
        widened = isinstance(wanted.field_type, IntegerType) and there.field_type == LongType()
        if there.field_type != wanted.field_type and not widened:
            return f"column {wanted.name} is {there.field_type}, not {wanted.field_type}"
    for there in schema.fields:
        if there.required and there.field_id not in known:
            return f"column {there.name} is required, and topics do not have it"
    spec = partition_spec(table.properties.get(PARTITION_BY, "partition"))
    if not table.spec().compatible_with(spec):
        return f"it is partitioned by {table.spec()}"
    return None
