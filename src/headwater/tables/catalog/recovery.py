"""Bringing the catalog in the metadata store up to what the tables' own files say.

``headwater restore`` brings the pointers back as the snapshot has them. A table cannot follow
them back: its newer commits have deleted old metadata and manifests, and their data files are what
a restore puts into the log again. So each pointer moves on to the newest metadata file of its
table, and a topic's table that the snapshot does not know yet is registered. After that tables are
as far as they were when the metadata store was lost, exactly as in a catalog that was not lost
with it; what they have beyond the restored log is for the restore, and for ``watermarks``, to
settle.

The same is done once after an upgrade from a release whose catalog was a file of one host: the
topics' tables are found in the object store, whichever host made them.

Every step may be repeated and done by rivals at once. Nobody uses the catalog before all are done.
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
"""How many files are read to find the newest one of a table; more are never kept of one."""

logger = logging.getLogger(__name__)


def recover(
    catalog: MetadataCatalog, pointers: Pointers, *, template: str, objects_url: str
) -> None:
    """Bring the catalog up to the restore epoch that ``pointers`` recover.

    ``template`` names the topics' tables. Raises ``CatalogOutdated`` if another process has
    finished it, ``CatalogUnavailable``, ``OSError``.
    """
    known = catalog.ask(pointers.tables())
    for name, location in known.items():
        _move_on(catalog, pointers, name, location)
    places = {_directory(location) for location in known.values()}
    with_files = directories(object_location(objects_url, "tables"), catalog.properties)
    cluster_id, topics = catalog.ask(_topics(pointers.meta, template))
    for topic_id in topics.keys() & set(with_files):
        place = f"{table_location(objects_url, topic_id)}/metadata"
        found = None if place in places else _held_records(place, cluster_id, catalog.properties)
        if found is not None:
            _register(catalog, pointers, topics[topic_id], found)
    catalog.ask(pointers.finish_recovery())


def _move_on(catalog: MetadataCatalog, pointers: Pointers, name: TableName, location: str) -> None:
    files = metadata_files(_directory(location), catalog.properties)
    newest = _newest(catalog.properties, location, files)
    with contextlib.suppress(CommitFailedException, NoSuchTableError):  # a rival was faster
        if newest is not None:
            logger.info("Table %s moves on to %s", dotted(name), newest)
            catalog.ask(pointers.move_pointer(name, location, newest))
        elif not files:
            logger.warning("Table %s is gone: it was purged after the snapshot", dotted(name))
            catalog.ask(pointers.drop_table(name))


def _newest(
    properties: Mapping[str, str], location: str, files: Sequence[MetadataFile]
) -> str | None:
    """The newest metadata of the table whose metadata was at ``location``; None if that is it.

    Two tables may have used one directory, one after the other, so ids are compared.
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
        if catalog.ask(pointers.table(name)) != metadata:  # a rival may have registered it
            logger.warning("Table %s is not the one at %s", dotted(name), metadata)
    else:
        logger.info("Table %s is registered from %s", dotted(name), metadata)


def _held_records(directory: str, cluster_id: str, properties: Mapping[str, str]) -> str | None:
    """The newest metadata of a table of this cluster; None if the table never held anything."""
    newest = next(iter(metadata_files(directory, properties)), None)
    if newest is None or newest.version == 0:
        return None
    owner = read_metadata(newest.location, properties).properties.get("headwater.cluster-id")
    return newest.location if owner == cluster_id else None


async def _topics(meta: MetadataStore, template: str) -> tuple[str, dict[str, TableName]]:
    """The cluster's id, and by topic id the names of the topics' tables."""
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
