"""The content of a topic's table, and its lag behind the log.

For a topic without a table: the lag of its segments, or 0 if it is not compacted.
"""

from dataclasses import dataclass
from typing import Final

from headwater.log.formats.metadata_values import INLINE, WAL
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.compaction.planner import SEGMENTS, lowest_run
from headwater.pipeline.metadata_reads import StoredTopic, read_layout, read_tail, read_view
from headwater.tables.names import dotted

WITH_TABLE: Final = ("parquet", "both")
"""Values of ``headwater.compact-to`` with a table."""


@dataclass(frozen=True, slots=True)
class TablePartitionFacts:
    """A partition's log start and end, and the first offset that is not compacted."""

    partition: int
    log_start: int
    end: int
    next_offset: int

    @property
    def waiting(self) -> int:
        """Number of offsets that are not compacted yet."""
        return max(0, self.end - max(self.next_offset, self.log_start))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A topic's table. Counts are 0 and locations empty if it does not exist."""

    topic: str
    name: str
    """Empty if the topic is configured without a table."""
    target: str
    location: str = ""
    metadata: str = ""
    snapshot: int | None = None
    snapshots: int = 0
    records: int = 0
    files: int = 0
    size: int = 0
    partitions: tuple[TablePartitionFacts, ...] = ()

    @property
    def waiting(self) -> int:
        return sum(partition.waiting for partition in self.partitions)

    def as_json(self) -> dict[str, object]:
        return {
            "topic": self.topic,
            "table": self.name or None,
            "compact_to": self.target,
            "location": self.location or None,
            "metadata": self.metadata or None,
            "snapshot": self.snapshot,
            "snapshots": self.snapshots,
            "records": self.records,
            "files": self.files,
            "bytes": self.size,
            "waiting": self.waiting,
            "partitions": [
                {
                    "partition": each.partition,
                    "log_start": each.log_start,
                    "end": each.end,
                    "next_offset": each.next_offset,
                    "waiting": each.waiting,
                }
                for each in self.partitions
            ],
        }


async def read_facts(stores: ClusterStores, topic: StoredTopic) -> TableFacts:
    """The facts of one topic. Raises ``CatalogUnavailable`` or ``TableMismatch``."""
    from headwater.tables.commit.watermarks import watermarks
    from headwater.tables.topic_tables import load_table
    from headwater.topic_config.topic import compaction_target

    target = compaction_target(topic.configs)
    if target not in WITH_TABLE:
        partitions = await _partitions(stores, topic, await _compacted_to(stores, topic, target))
        return TableFacts(topic=topic.name, name="", target=target, partitions=partitions)
    wanted = stores.tables.table(topic)
    name = dotted(wanted.name)
    if not wanted.exists:
        partitions = await _partitions(stores, topic, {})
        return TableFacts(topic=topic.name, name=name, target=target, partitions=partitions)
    table = load_table(wanted)
    snapshot = table.current_snapshot()
    counts = (
        {}
        if snapshot is None or snapshot.summary is None
        else snapshot.summary.additional_properties
    )
    return TableFacts(
        topic=topic.name,
        name=name,
        target=target,
        location=table.location(),
        metadata=table.metadata_location,
        snapshot=None if snapshot is None else snapshot.snapshot_id,
        snapshots=len(table.metadata.snapshots),
        records=int(counts.get("total-records", 0)),
        files=int(counts.get("total-data-files", 0)),
        size=int(counts.get("total-files-size", 0)),
        partitions=await _partitions(stores, topic, watermarks(table.properties)),
    )


async def _compacted_to(stores: ClusterStores, topic: StoredTopic, target: str) -> dict[int, int]:
    """By stream: the first offset that is not compacted, in a topic without a table."""
    found = {}
    for stream in topic.streams:
        _, view = await read_view(stores.meta, stream, (INLINE, WAL))
        run = lowest_run(view) if target == SEGMENTS else []
        tail = await read_tail(stores.meta, stream)
        found[stream] = run[0].start if run else tail.high_watermark
    return found


async def _partitions(
    stores: ClusterStores, topic: StoredTopic, marks: dict[int, int]
) -> tuple[TablePartitionFacts, ...]:
    found = []
    for partition, stream in enumerate(topic.streams):
        layout, tail = await read_layout(stores.meta, stream), await read_tail(stores.meta, stream)
        found.append(
            TablePartitionFacts(
                partition, layout.log_start, tail.high_watermark, marks.get(stream, 0)
            )
        )
    return tuple(found)
