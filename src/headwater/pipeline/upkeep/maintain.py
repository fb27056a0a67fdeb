"""``headwater table maintain``: remove deleted records from tables, and expire table snapshots.

Files whose records were removed by retention or DeleteRecords leave the table. Once no kept
snapshot refers to them, brokers delete them. This needs no Spark. Every step can be repeated, and
several processes may run it at the same time.
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
"""Age of an unreferenced metadata file at which it is deleted; longer than any commit takes."""


@dataclass(slots=True)
class UpkeepSummary:
    """The counts of one run."""

    tables: int = 0
    files_let_go: int = 0
    """Released files: neither the log nor a kept snapshot refers to them."""
    files_waiting: int = 0
    """Files that left the log, but that a kept snapshot still refers to."""
    snapshots_expired: int = 0
    metadata_deleted: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return asdict(self)


async def keep_tables(
    stores: ClusterStores, names: Collection[str], watcher: CheckWatcher
) -> UpkeepSummary:
    """Maintain the tables of these topics, or of all. Releases files of all topics.

    Raises ``UnknownTopicOrPartition``. The failure of one table is reported in the summary.
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
