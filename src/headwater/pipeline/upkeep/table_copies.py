"""Releasing files of tables that are a copy of their log (``headwater.compact-to=both``).

No index entry refers to these files, so trims do not release them. They are released once all
records of their range are deleted, or their topic is.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from headwater.errors import TableMismatch
from headwater.log.reclaim.releases import TableReleases
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.fsck.table_checks import below_log_start, read_table
from headwater.pipeline.metadata_reads import StoredTopic, read_layout, read_topics
from headwater.topic_config.topic import compaction_target

_DELETED_STREAM: Final = 0


async def release_copies(stores: ClusterStores) -> None:
    """Add unneeded copies to the table release list, for ``release_table_files``.

    Raises ``CatalogUnavailable``.
    """
    releases = TableReleases(stores.meta, stores.clock)
    known = {topic.id for topic in await read_topics(stores.meta, ())}
    left = await asyncio.to_thread(stores.tables.files_of_deleted_topics, known)
    # Read again, because a table may belong to a topic that was just created.
    topics = await read_topics(stores.meta, ())
    for topic_id, files in left.items():
        if topic_id not in {topic.id for topic in topics}:
            await releases.note(_DELETED_STREAM, files)
    for topic in topics:
        if compaction_target(topic.configs) == "both":
            await _release_below(stores, topic, releases)


async def _release_below(
    stores: ClusterStores, topic: StoredTopic, releases: TableReleases
) -> None:
    try:
        table = await asyncio.to_thread(read_table, stores, topic)
    except TableMismatch:
        return  # its next commit will report the mismatch
    if table is None:
        return
    log_starts = {
        partition: (await read_layout(stores.meta, stream)).log_start
        for partition, stream in enumerate(topic.streams)
    }
    for partition, files in _by_partition(table.files, log_starts).items():
        await releases.note(topic.streams[partition], sorted(files))


_PARTITION: Final = re.compile(r".*/data/(\d+)/[^/]+")


def _by_partition(
    files: Mapping[str, object], log_starts: Mapping[int, int]
) -> dict[int, list[str]]:
    """Files whose records are all deleted, by partition."""
    found: dict[int, list[str]] = {}
    for key in files:
        if below_log_start(key, log_starts) and (match := _PARTITION.fullmatch(key)):
            found.setdefault(int(match[1]), []).append(key)
    return found
