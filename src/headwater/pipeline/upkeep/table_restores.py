"""Tables in a restore.

Before a restore places records, it reads what each table held (``TableHoldings``). Afterwards each
table is *settled*: it is set to the files and watermarks of the log, and files that have no place
in the log are removed. A table refuses commits until it is settled. If the catalog was unavailable,
the next compaction or ``headwater table maintain`` settles it.
"""

import asyncio
import importlib.util
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.errors import CorruptMessage, KafkaError, StoreError
from headwater.log.formats.metadata_values import HOLE, INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.formats.snapshot_file import SnapshotDescription
from headwater.log.jobs.jobs import TABLES, DataFile, job_of_file
from headwater.log.read.parquet.source import footer_bytes
from headwater.log.restore.restored import TableHolding
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.metadata_reads import (
    StoredTopic,
    read_entries,
    read_layout,
    read_topics,
)
from headwater.pipeline.upkeep.table_releases import CallCatalog

if TYPE_CHECKING:
    from headwater.pipeline.compaction.table_commits import TableCommits

T = TypeVar("T")

logger = logging.getLogger(__name__)

_METADATA: Final = re.compile(r".*/metadata/0*(\d+)-[^/]*\.metadata\.json")
EVERY_KIND: Final = (INLINE, WAL, PARQUET, SEGMENT, HOLE)


@dataclass(slots=True)
class SettledTables:
    """Tables that were settled, and files that were added to or removed from them."""

    tables: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class TableHoldings:
    """Reads for a restore what tables held when the metadata store was lost."""

    def __init__(self, objects: ObjectStore, objects_url: str) -> None:
        self._objects = objects
        self._objects_url = objects_url

    async def __call__(
        self, of: SnapshotDescription, topic_ids: Collection[str]
    ) -> Mapping[str, TableHolding]:
        newest: dict[str, tuple[int, int, str]] = {}
        async for info in self._objects.list(TABLES):
            match, topic_id = _METADATA.fullmatch(info.key), info.key.split("/")[1]
            if match and topic_id in topic_ids:
                found = (int(match[1]), info.modified_ms, info.key)
                newest[topic_id] = max(newest.get(topic_id, found), found)
        held: dict[str, TableHolding] = {}
        if newest and importlib.util.find_spec("pyiceberg") is not None:
            for topic_id, (_, _, key) in newest.items():
                holding = await asyncio.to_thread(self._read, of, topic_id, key)
                if holding is not None:
                    held[topic_id] = holding
        return held

    def _read(self, of: SnapshotDescription, topic_id: str, key: str) -> TableHolding | None:
        from headwater.tables.commit.holdings import read_holdings

        try:
            found = read_holdings(
                self._objects_url, key, cluster_id=of.cluster, topic_id=topic_id, epoch=of.epoch
            )
        except (OSError, ValueError) as error:
            logger.warning("Cannot read a table", extra={"metadata": key, "error": error})
            return None
        return None if found is None else TableHolding(*found)


async def settle_tables(stores: ClusterStores) -> SettledTables:
    """Settle all tables. The failure of one table is reported in the result."""
    done = SettledTables()
    for topic in await read_topics(stores.meta, ()):
        try:
            await settle_table(stores.meta, stores.objects, topic, stores.tables, _in_thread, done)
        except (StoreError, KafkaError) as error:
            done.failures.append(str(error))
    return done


async def settle_table(
    meta: MetadataStore,
    objects: ObjectStore,
    topic: StoredTopic,
    tables: "TableCommits",
    ask: CallCatalog,
    done: SettledTables | None = None,
) -> None:
    """Settle a topic's table, unless that was done since the last restore.

    Raises ``StoreError`` or ``KafkaError``; another call continues from there.
    """
    if tables.epoch == 0:
        return
    files: dict[str, tuple[int, IndexEntry]] = {}
    jobs: set[str] = set()
    watermarks: dict[int, int] = {}
    for partition, stream in enumerate(topic.streams):
        entries = await read_entries(meta, stream, 0, 1 << 62, limit=None, kinds=EVERY_KIND)
        layout = await read_layout(meta, stream)
        watermarks[stream] = compacted_to(entries, layout.log_start)
        for entry in entries:
            if entry.kind == PARQUET:
                files[entry.key] = (partition, entry)
            elif entry.kind == SEGMENT and (job := job_of_file(entry.key)) is not None:
                jobs.add(job)
    missing = await ask(lambda: tables.missing(topic, list(files)))
    if missing is None:
        return
    from headwater.tables.commit.changes import Settlement

    wanted: dict[str, DataFile | None] = dict.fromkeys(files)
    for key in missing:
        partition, entry = files[key]
        tail = await footer_bytes(objects, entry)
        wanted[key] = await ask(partial(data_file, tail, partition, entry))
    settlement = Settlement(files=wanted, copied_jobs=jobs, watermarks=watermarks)
    settled = await ask(lambda: tables.settle(topic, settlement))
    if done is not None:
        done.tables.append(topic.name)
        done.added += settled.added
        done.removed += settled.removed


def compacted_to(entries: Sequence[IndexEntry], log_start: int) -> int:
    """The first offset that is neither compacted nor set aside."""
    reached = log_start
    for entry in entries:
        if entry.end <= log_start:
            continue
        if entry.kind in (INLINE, WAL) and not entry.set_aside:
            return entry.start
        reached = entry.end
    return reached


def data_file(tail: bytearray, partition: int, entry: IndexEntry) -> DataFile:
    """The manifest entry of a file that is in the log but not in the table.

    Raises ``CorruptMessage`` if the file's footer is damaged.
    """
    from headwater.log.read.parquet.rows import read_footer
    from headwater.tables.commit.statistics import described_statistics

    footer, metadata = read_footer(tail, entry.key)
    try:
        stats = described_statistics(footer, (partition,))
    except (KeyError, IndexError) as error:
        raise CorruptMessage(
            f"{entry.key} has a column that tables do not have: {error}"
        ) from error
    return DataFile(
        key=entry.key,
        store=entry.store,
        size=entry.length,
        rows=metadata.num_rows,
        start=entry.start,
        end=entry.end,
        min_timestamp=-1,
        max_timestamp=entry.max_timestamp,
        stats=stats,
    )


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)
