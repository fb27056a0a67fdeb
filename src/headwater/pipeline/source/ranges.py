"""Which ranges of which streams a query reads: topics, bounds and index entries.

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
"""Inline data travels with the plan: a range takes less of it."""


@dataclass(frozen=True, slots=True)
class StreamRange:
    """Offsets ``[start, end)`` of one stream, and where they were when it was planned."""

    topic: str
    partition: int
    stream: int
    start: int
    end: int
    entries: tuple[bytes, ...]
    pin: NamedPin | None = None
    failure: str = ""
    """Why it cannot be read; whoever reads it says so."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """What a partition holds for readers: ``[log_start, end)``."""

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
    """The bounds of all partitions, as they are.

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
    """Names those that the user may have meant."""
    near = difflib.get_close_matches(name, list(names), n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownTopicOrPartition(f"topic {name!r} does not exist{hint}")


def check_partitions(position: Position, bounds: Sequence[PartitionBounds], option: str) -> None:
    """Raises ``UnknownTopicOrPartition`` where an offset is given for what is not read."""
    there = {(each.topic, each.partition) for each in bounds}
    for topic, offsets in position.offsets.items():
        for partition in offsets:
            if (topic, partition) not in there:
                raise UnknownTopicOrPartition(
                    f"{option} names {topic}-{partition}, which is not among the partitions read"
                )


def resolve(position: Position, bounds: PartitionBounds, *, fail_on_data_loss: bool) -> int:
    """A position without a time as an offset of this partition.

    Raises ``OffsetOutOfRange`` where the partition does not hold it.
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
            f"{bounds.name} ends at offset {bounds.end}, and {offset} is asked for; "
            "with option failOnDataLoss=false that is no error"
        )
    return min(max(offset, bounds.log_start), bounds.end)


def lost(name: str, offset: int, log_start: int) -> OffsetOutOfRange:
    """Records that were asked for were deleted. (Gaps between records are nothing of the kind.)"""
    return OffsetOutOfRange(
        f"{name} begins at offset {log_start}, and what was at {offset} is deleted; "
        "with option failOnDataLoss=false it is passed over"
    )


async def covering(
    meta: MetadataStore, stream: int, start: int, end: int
) -> tuple[int, list[IndexEntry]]:
    """The stream's log start, and its entries that hold any of ``[start, end)``, with data."""
    found: list[IndexEntry] = []
    first, after = keys.index_entry(0, stream, start + 1), prefix_end(keys.index(0, stream))
    async for stored in scan_all(meta, first, after, page=PAGE):
        entry = decode(IndexEntry, stored.value)
        if entry.start < end:
            found.append(entry)
        if entry.end >= end:
            break
    # Read last: what was trimmed meanwhile counts as gone.
    layout = await read_layout(meta, stream)
    return layout.log_start, found


def cut(
    bounds: PartitionBounds,
    start: int,
    end: int,
    entries: Sequence[IndexEntry],
    partition_bytes: int,
) -> Iterator[StreamRange]:
    """Ranges of about as many bytes over these entries; they meet where entries do.

    Files that are larger are cut evenly by offset; their row groups are found by it.
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
    """About how many bytes are read for ``[low, high)`` of an entry; a chunk is read whole."""
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
