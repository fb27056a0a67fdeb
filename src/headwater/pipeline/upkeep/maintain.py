"""``headwater table maintain``: tables follow their log's start, and their history stays short.

Records that retention or DeleteRecords took off the log leave its table with their files. A file
that left both is deleted by the brokers' garbage collection, once no kept snapshot names it.
Needs no Spark. Every part may be repeated, and run at the same time by several processes.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from typing import Final, TypeVar

from headwater.errors import StoreError
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.fsck.report import CheckWatcher
from headwater.pipeline.metadata_reads import StoredTopic, read_topics
from headwater.pipeline.upkeep.table_copies import release_copies
from headwater.pipeline.upkeep.table_releases import release_table_files
from headwater.pipeline.upkeep.table_restores import settle_tables

T = TypeVar("T")

ORPHANED_METADATA_MS: Final = 3_600_000
"""Longer than any commit takes: what no version of a table names by then is left over."""


@dataclass(slots=True)
class UpkeepSummary:
    """What was done."""

    tables: int = 0
    files_let_go: int = 0
    """Files that neither the log nor a kept snapshot names: they will be deleted."""
    files_waiting: int = 0
    """Files that left the log and that a kept snapshot still names."""
    snapshots_expired: int = 0
    metadata_deleted: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def keep_tables(
    stores: ClusterStores, names: Collection[str], watcher: CheckWatcher
) -> UpkeepSummary:
    """Look after the tables of these topics, or of all; files that left the log, of all.

    Raises ``UnknownTopicOrPartition``; what goes wrong with one table is told in the summary.
    """
    began = time.monotonic()
    summary = UpkeepSummary()
    topics = await read_topics(stores.meta, names)
    settled = await settle_tables(stores)
    summary.failures += settled.failures
    try:
        await release_copies(stores)
        released = await release_table_files(stores.meta, stores.clock, stores.tables, _in_thread)
    except StoreError as error:
        summary.failures.append(str(error))
    else:
        summary.files_let_go = released
    for number, topic in enumerate(topics):
        watcher.at(f"Table of {topic.name}", number, len(topics))
        try:
            await asyncio.to_thread(_keep, stores, topic, summary)
        except StoreError as error:
            summary.failures.append(str(error))
    summary.files_waiting = await _waiting(stores)
    summary.seconds = time.monotonic() - began
    return summary


def _keep(stores: ClusterStores, topic: StoredTopic, summary: UpkeepSummary) -> None:
    from headwater.tables.maintenance import delete_orphaned_metadata

    table = stores.tables.table(topic)
    if not table.exists:
        return
    now_ms = stores.clock.now_ms()
    summary.snapshots_expired += stores.tables.expire(topic, now_ms)
    orphans = delete_orphaned_metadata(table, older_than_ms=ORPHANED_METADATA_MS, now_ms=now_ms)
    summary.metadata_deleted += len(orphans)
    summary.tables += 1


async def _waiting(stores: ClusterStores) -> int:
    from headwater.log.reclaim.releases import TableReleases

    releases = TableReleases(stores.meta, stores.clock)
    return sum([len(noted.files) async for noted in releases.waiting()])


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)
