"""Recovery of the catalog in the metadata store from the tables' metadata files.

``headwater restore`` restores the pointers of the snapshot. Tables cannot go back to these: newer
commits have deleted old metadata and manifests, and the restore puts their data files into the log.
So each pointer moves to the newest metadata file of its table, and topics' tables that are newer
than the snapshot are registered. Afterwards each table has the state of the time when the metadata
store was lost. ``pipeline.upkeep.table_restores`` then sets it to the content of the restored log.

The same happens once after an upgrade from a version whose catalog was a file on one host: topics'
tables are found in the object store.

Every step can be repeated, and several processes may run it at the same time. The catalog cannot be
used before the recovery is finished.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

from headwater.cluster_record import ClusterRecord
from headwater.log.formats.metadata_values import TopicRecord
from headwater.meta import keys
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.values import decode
from headwater.tables.catalog.metadata_catalog import MetadataCatalog
from headwater.tables.catalog.metadata_files import (
    MetadataFile,
    directories,
    metadata_files,
    read_metadata,
    version_of,
)
from headwater.tables.catalog.pointers import Pointers
from headwater.tables.locations import object_location, table_location
from headwater.tables.names import TableName, dotted, table_name
from headwater.topic_config.stored import stored_configs
from headwater.topic_config.topic import topic_defaults

MAX_CANDIDATES: Final = 50
"""Maximum files that are read to find the newest one; a table never keeps more."""

logger = logging.getLogger(__name__)


def recover(
    catalog: MetadataCatalog, pointers: Pointers, *, template: str, objects_url: str
) -> None:
    """Recover the catalog for the restore epoch of ``pointers``.

    ``template`` is the template of table names. Raises ``CatalogOutdated`` if another process
    finished the recovery, ``CatalogUnavailable`` or ``OSError``.
    """
    known = catalog.ask(pointers.tables())
    for name, location in known.items():
        _move_to_newest(catalog, pointers, name, location)
    known_directories = {_directory(location) for location in known.values()}
    with_files = directories(object_location(objects_url, "tables"), catalog.properties)
    cluster_id, topics = catalog.ask(_topics(pointers.meta, template))
    for topic_id in topics.keys() & set(with_files):
        directory = f"{table_location(objects_url, topic_id)}/metadata"
        found = (
            None
            if directory in known_directories
            else _held_records(directory, cluster_id, catalog.properties)
        )
        if found is not None:
            _register(catalog, pointers, topics[topic_id], found)
    catalog.ask(pointers.finish_recovery())


def _move_to_newest(
    catalog: MetadataCatalog, pointers: Pointers, name: TableName, location: str
) -> None:
    files = metadata_files(_directory(location), catalog.properties)
    newest = _newest(catalog.properties, location, files)
    with contextlib.suppress(CommitFailedException, NoSuchTableError):  # another process was faster
        if newest is not None:
            logger.info("Recovered a table", extra={"table": dotted(name), "metadata": newest})
            catalog.ask(pointers.move_pointer(name, location, newest))
        elif not files:
            logger.warning(
                "Dropped a table that was purged after the snapshot", extra={"table": dotted(name)}
            )
            catalog.ask(pointers.drop_table(name))


def _newest(
    properties: Mapping[str, str], location: str, files: Sequence[MetadataFile]
) -> str | None:
    """The newest metadata of the table with metadata at ``location``; None if that is the newest.

    Table ids are compared, because two tables may have used the same directory.
    """
    later = [file for file in files if file.version > version_of(location)]
    if not later:
        return None
    wanted = _uuid_at(location, properties)
    for file in later[:MAX_CANDIDATES]:
        found = _uuid_at(file.location, properties)
        if found is not None and wanted in (None, found):
            return file.location
    return None


def _uuid_at(location: str, properties: Mapping[str, str]) -> UUID | None:
    try:
        return read_metadata(location, properties).table_uuid
    except (FileNotFoundError, ValueError):
        return None


def _register(catalog: MetadataCatalog, pointers: Pointers, name: TableName, metadata: str) -> None:
    with contextlib.suppress(NamespaceAlreadyExistsError):
        catalog.ask(pointers.add_namespace(name[:-1], {}))
    try:
        catalog.ask(pointers.add_table(name, metadata))
    except TableAlreadyExistsError:
        if catalog.ask(pointers.table(name)) != metadata:  # another process may have registered it
            logger.warning(
                "Cannot register a table, its name is in use",
                extra={"table": dotted(name), "metadata": metadata},
            )
    else:
        logger.info("Registered a table", extra={"table": dotted(name), "metadata": metadata})


def _held_records(directory: str, cluster_id: str, properties: Mapping[str, str]) -> str | None:
    """The newest metadata of a table of this cluster; None if the table never had records."""
    newest = next(iter(metadata_files(directory, properties)), None)
    if newest is None or newest.version == 0:
        return None
    owner = read_metadata(newest.location, properties).properties.get("headwater.cluster-id")
    return newest.location if owner == cluster_id else None


async def _topics(meta: MetadataStore, template: str) -> tuple[str, dict[str, TableName]]:
    """The cluster's id, and table names by topic id."""
    cluster = await meta.get(keys.CLUSTER)
    stored = await meta.get(keys.broker_configs(None))
    defaults = topic_defaults(stored_configs(None if stored is None else stored.value))
    names = {}
    for entry in (await meta.scan(keys.TOPICS, prefix_end(keys.TOPICS))).entries:
        record = decode(TopicRecord, entry.value)
        topic = entry.key.removeprefix(keys.TOPICS)
        names[str(UUID(bytes=record.id))] = table_name(
            template, topic, {**defaults, **record.configs}
        )
    return "" if cluster is None else decode(ClusterRecord, cluster.value).id, names


def _directory(location: str) -> str:
    return location.rpartition("/")[0]
