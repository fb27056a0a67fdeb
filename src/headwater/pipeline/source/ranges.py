"""The ranges of streams that a query reads: topics, bounds and index entries.

Functions without ``async`` are pure.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from headwater.errors import OffsetOutOfRange, UnknownTopicOrPartition
from headwater.log.formats.metadata_values import INLINE, PARQUET, IndexEntry
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, prefix_end
from headwater.meta.values import decode, encode
from headwater.pipeline.metadata_reads import StoredTopic, read_layout, read_tail, read_topics
from headwater.pipeline.source.metadata import NamedPin
from headwater.pipeline.source.options import EARLIEST, LATEST, Position, SourceOptions

PAGE: Final = 512
INLINE_WEIGHT: Final = 4
"""Weight of inline data, which is sent with the plan, so that a range contains less of it."""


@dataclass(frozen=True, slots=True)
class StreamRange:
    """Offsets ``[start, end)`` of one stream, and their index entries at planning time."""

    topic: str
    partition: int
    stream: int
    start: int
    end: int
    entries: tuple[bytes, ...]
    pin: NamedPin | None = None
    failure: str = ""
    """Why the range cannot be read; raised by the task that reads it."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """The readable offsets of a partition: ``[log_start, end)``."""

    topic: str
    topic_id: str
    partition: int
    stream: int
    log_start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


async def read_bounds(meta: MetadataStore, options: SourceOptions) -> list[PartitionBounds]:
    """The current bounds of all partitions of the selected topics.

    Raises ``UnknownTopicOrPartition``.
    """
    found = []
    for topic in await _selected(meta, options):
        for partition, stream in enumerate(topic.streams):
            layout = await read_layout(meta, stream)
            tail = await read_tail(meta, stream)
            if not tail.deleted:
                end = max(tail.last_stable, layout.log_start)
                found.append(
                    PartitionBounds(topic.name, topic.id, partition, stream, layout.log_start, end)
                )
    return found


async def _selected(meta: MetadataStore, options: SourceOptions) -> list[StoredTopic]:
    topics = await read_topics(meta, ())
    if options.pattern:
        matches = re.compile(options.pattern).fullmatch
        return [topic for topic in topics if matches(topic.name)]
    by_name = {topic.name: topic for topic in topics}
    for name in options.topics:
        if name not in by_name:
            raise unknown_topic(name, by_name)
    return [by_name[name] for name in dict.fromkeys(options.topics)]


def unknown_topic(name: str, names: Iterable[str]) -> UnknownTopicOrPartition:
    """The error for an unknown topic, with similar names."""
    near = difflib.get_close_matches(name, list(names), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownTopicOrPartition(f"topic {name!r} does not exist{hint}")


def check_partitions(position: Position, bounds: Sequence[PartitionBounds], option: str) -> None:
    """Raises ``UnknownTopicOrPartition`` if an offset is given for a partition that is not read."""
    there = {(each.topic, each.partition) for each in bounds}
    for topic, offsets in position.offsets.items():
        for partition in offsets:
            if (topic, partition) not in there:
                raise UnknownTopicOrPartition(
                    f"{option} names {topic}-{partition}, which is not among the partitions read"
                )


def resolve(position: Position, bounds: PartitionBounds, *, fail_on_data_loss: bool) -> int:
    """The offset of a position without a time in this partition.

    Raises ``OffsetOutOfRange`` if the partition does not contain it.
    """
    offset = position.offsets.get(bounds.topic, {}).get(bounds.partition, position.default)
    if offset == EARLIEST:
        return bounds.log_start
    if offset == LATEST:
        return bounds.end
    if not bounds.log_start <= offset <= bounds.end and fail_on_data_loss:
        if offset < bounds.log_start:
            raise lost(bounds.name, offset, bounds.log_start)
        raise OffsetOutOfRange(
            f"{bounds.name} ends at offset {bounds.end}, and {offset} is requested; "
            "with option failOnDataLoss=false this is not an error"
        )
    return min(max(offset, bounds.log_start), bounds.end)


def lost(name: str, offset: int, log_start: int) -> OffsetOutOfRange:
    """The error for requested records that were deleted. Gaps between records are not an error."""
    return OffsetOutOfRange(
        f"{name} begins at offset {log_start}, and the record at {offset} is deleted; "
        "with option failOnDataLoss=false deleted records are skipped"
    )


async def covering(
    meta: MetadataStore, stream: int, start: int, end: int
) -> tuple[int, list[IndexEntry]]:
    """The log start, and the entries that overlap ``[start, end)``, with inline data."""
    found: list[IndexEntry] = []
    first, after = keys.index_entry(0, stream, start + 1), prefix_end(keys.index(0, stream))
    async for stored in scan_all(meta, first, after, page=PAGE):
        entry = decode(IndexEntry, stored.value)
        if entry.start < end:
            found.append(entry)
        if entry.end >= end:
            break
    # Read last, so that a concurrent trim is noticed.
    layout = await read_layout(meta, stream)
    return layout.log_start, found


def cut(
    bounds: PartitionBounds,
    start: int,
    end: int,
    entries: Sequence[IndexEntry],
    partition_bytes: int,
) -> Iterator[StreamRange]:
    """Split these entries into ranges of about ``partition_bytes``, at entry boundaries.

    A larger Parquet file is split evenly by offset, because row groups are found by offset.
    """
    pending: list[IndexEntry] = []
    weight = 0
    begin = start
    for entry in entries:
        low, high = max(begin, entry.start), min(end, entry.end)
        size = _weight(entry, low, high)
        if pending and weight + size > partition_bytes:
            yield _range(bounds, begin, low, pending)
            pending, weight, begin = [], 0, low
        pieces = ceil(size / partition_bytes) if entry.kind == PARQUET else 1
        for number in range(1, pieces):
            stop = low + (high - low) * number // pieces
            if stop > begin:
                yield _range(bounds, begin, stop, [*pending, entry])
                pending, weight, begin = [], 0, stop
        pending.append(entry)
        weight += size // pieces
    if pending and begin < end:
        yield _range(bounds, begin, end, pending)


def _weight(entry: IndexEntry, low: int, high: int) -> int:
    """Approximate bytes to read for ``[low, high)`` of an entry. A chunk is read completely."""
    if entry.kind == PARQUET:
        return entry.length * (high - low) // (entry.end - entry.start)
    return entry.length * (INLINE_WEIGHT if entry.kind == INLINE else 1)


def _range(
    bounds: PartitionBounds, start: int, end: int, entries: Sequence[IndexEntry]
) -> StreamRange:
    return StreamRange(
        bounds.topic,
        bounds.partition,
        bounds.stream,
        start,
        end,
        tuple(encode(entry) for entry in entries),
    )
