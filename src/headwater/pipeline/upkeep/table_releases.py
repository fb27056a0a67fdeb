"""Releasing table files that left the log.

Trims and swaps add files that they remove from the index to the table release list. This removes
them from their table. Once no kept snapshot refers to them, it releases them to the brokers'
garbage collection. The table of a deleted topic is dropped.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headwater.clock import Clock
from headwater.log.reclaim.releases import TableRelease, TableReleases
from headwater.meta.store import MetadataStore
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.pipeline.metadata_reads import StoredTopic, read_topics

T = TypeVar("T")


class CallCatalog(Protocol):
    """Runs a blocking call of the catalog on its thread."""

    async def __call__(self, function: Callable[[], T]) -> T: ...


async def release_table_files(
    meta: MetadataStore, clock: Clock, tables: TableCommits, ask: CallCatalog
) -> int:
    """Process the table release list; returns the number of released files.

    Raises ``CatalogUnavailable`` or ``TableMismatch``; another call continues from there.
    """
    releases = TableReleases(meta, clock)
    waiting = [noted async for noted in releases.waiting()]
    if not waiting:
        return 0
    # Read after the list, so a stream without a topic belongs to a deleted topic.
    owners = {stream: topic for topic in await read_topics(meta, ()) for stream in topic.streams}
    released = 0
    for topic, notes in _by_topic(waiting, owners):
        files = [file for noted in notes for file in noted.files]
        free = await _free(topic, files, tables, ask, clock.now_ms())
        for noted in notes:
            gone = free.intersection(noted.files)
            if gone:
                await releases.let_go(noted, gone)
                released += len(gone)
            await asyncio.sleep(0)
    return released


def _by_topic(
    waiting: Sequence[TableRelease], owners: dict[int, StoredTopic]
) -> list[tuple[StoredTopic | None, list[TableRelease]]]:
    """The entries grouped by topic; entries of all deleted topics have None."""
    topics: dict[str, StoredTopic | None] = {}
    notes: dict[str, list[TableRelease]] = {}
    for noted in waiting:
        topic = owners.get(noted.stream)
        key = "" if topic is None else topic.id
        topics[key] = topic
        notes.setdefault(key, []).append(noted)
    return [(topics[key], found) for key, found in notes.items()]


async def _free(
    topic: StoredTopic | None,
    files: Sequence[str],
    tables: TableCommits,
    ask: CallCatalog,
    now_ms: int,
) -> frozenset[str]:
    if topic is not None:
        return await ask(lambda: tables.remove(topic, files, now_ms))
    # tables/<topic id>/data/...
    for topic_id in {file.split("/")[1] for file in files}:
        await ask(lambda topic_id=topic_id: tables.drop(topic_id))  # type: ignore[misc]
    return frozenset(files)
