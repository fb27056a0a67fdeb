"""Planning a query: its bounds, its pins, and the ranges that its tasks read."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from headwater.log.formats.metadata_values import IndexEntry
from headwater.meta.store import MetadataStore
from headwater.pipeline.object_reads import ObjectReads, open_reads
from headwater.pipeline.source.filters import Interval, ReadFilter
from headwater.pipeline.source.metadata import NamedPin, opened, put_pins, remove_pins
from headwater.pipeline.source.options import Position, SourceOptions
from headwater.pipeline.source.ranges import (
    PartitionBounds,
    StreamRange,
    check_partitions,
    covering,
    cut,
    lost,
    read_bounds,
    resolve,
)


def plan_batch(options: SourceOptions, wanted: ReadFilter) -> list[StreamRange]:
    """The ranges of all records at this moment, each with its pin written.

    Raises ``UnknownTopicOrPartition``, ``OffsetOutOfRange``, ``StoreError``.
    """
    with opened(options.metadata_url) as store:
        return store.run(_plan_batch(store.meta, options, wanted))


async def _plan_batch(
    meta: MetadataStore, options: SourceOptions, wanted: ReadFilter
) -> list[StreamRange]:
    all_bounds = await read_bounds(meta, options)
    check_partitions(options.starting, all_bounds, "startingOffsets")
    check_partitions(options.ending, all_bounds, "endingOffsets")
    span = wanted.partitions
    bounds = [each for each in all_bounds if span.low <= each.partition <= span.high]
    name = f"spark-{uuid4().hex}"
    first = [NamedPin(each.stream, each.log_start, f"{name}-0") for each in bounds]
    await put_pins(meta, first)
    try:
        found = await _pinned_ranges(meta, options, wanted, bounds, name)
    except BaseException:
        await remove_pins(meta, first)
        raise
    used = [part.pin for part in found if part.pin is not None]
    await put_pins(meta, [pin for pin in used if pin not in first])
    await remove_pins(meta, [pin for pin in first if pin not in used])
    return found


async def _pinned_ranges(
    meta: MetadataStore,
    options: SourceOptions,
    wanted: ReadFilter,
    bounds: Sequence[PartitionBounds],
    name: str,
) -> list[StreamRange]:
    """Plan ranges, each with its own pin. Its task removes the pin after reading."""
    found: list[StreamRange] = []
    for each in bounds:
        start, end = await resolve_both(meta, options, each)
        offsets = wanted.offsets.intersect(start, end - 1)
        ranges = await plan_range(meta, options, wanted, each, offsets.low, offsets.high + 1)
        found += [
            replace(part, pin=NamedPin(each.stream, each.log_start, f"{name}-{number}"))
            for number, part in enumerate(ranges)
        ]
    return found


async def plan_range(
    meta: MetadataStore,
    options: SourceOptions,
    wanted: ReadFilter,
    bounds: PartitionBounds,
    start: int,
    end: int,
) -> list[StreamRange]:
    """The ranges of ``[start, end)`` of a partition.

    Raises ``OffsetOutOfRange`` if a part of it is deleted and ``failOnDataLoss`` is on.
    """
    if start >= end:
        return []
    log_start, entries = await covering(meta, bounds.stream, start, end)
    if log_start > start:
        if options.fail_on_data_loss and start < bounds.log_start:
            raise lost(bounds.name, start, log_start)
        start = log_start
    kept = [entry for entry in entries if entry.end > start and wanted.may_have(entry)]
    return list(cut(bounds, start, end, kept, options.partition_bytes))


async def resolve_both(
    meta: MetadataStore, options: SourceOptions, bounds: PartitionBounds
) -> tuple[int, int]:
    """The first offset and the end of a query in a partition."""
    start = await resolve_one(meta, options, options.starting, bounds)
    end = await resolve_one(meta, options, options.ending, bounds)
    return start, max(start, end)


async def resolve_one(
    meta: MetadataStore, options: SourceOptions, position: Position, bounds: PartitionBounds
) -> int:
    """The offset of a position in a partition. A time is resolved to the exact record."""
    if position.time_ms is None:
        return resolve(position, bounds, fail_on_data_loss=options.fail_on_data_loss)
    time_us = position.time_ms * 1000
    reads = open_reads(options.objects_url)
    try:
        log_start, entries = await covering(meta, bounds.stream, bounds.log_start, bounds.end)
        later = [entry for entry in entries if entry.max_timestamp >= position.time_ms]
        return _first_at(later, reads, bounds, max(log_start, bounds.log_start), time_us)
    finally:
        reads.close()


def _first_at(
    entries: Sequence[IndexEntry],
    reads: ObjectReads,
    bounds: PartitionBounds,
    start: int,
    time_us: int,
) -> int:
    import numpy as np

    from headwater.pipeline.source.read import read_entries

    wanted = ReadFilter(times=Interval(low=time_us))
    columns = ("offset", "timestamp")
    for batch in read_entries(entries, reads, bounds.partition, start, bounds.end, columns, wanted):
        times = batch.column("timestamp").cast("int64").to_numpy()
        late = np.flatnonzero(times >= time_us)
        if len(late):
            return int(batch.column("offset").to_numpy()[late[0]])
    return bounds.end
