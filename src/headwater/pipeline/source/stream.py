"""Topics as streams, for Structured Streaming.

Spark stores the position in its checkpoint: offsets by topic and partition, and the topic's id, so
that a topic that was deleted and created again is recognized. Topics and partitions are listed in
each batch; new ones are read from their beginning.
"""

from collections.abc import Iterator
from typing import Any, Final

from headwater.errors import OffsetOutOfRange
from headwater.meta.store_thread import StoreThread
from headwater.pipeline.source.filters import ReadFilter
from headwater.pipeline.source.group_lag import ReportedGroup
from headwater.pipeline.source.metadata import open_thread
from headwater.pipeline.source.options import SourceOptions
from headwater.pipeline.source.pins import KeptPins
from headwater.pipeline.source.plan import plan_range, resolve_one
from headwater.pipeline.source.ranges import (
    PartitionBounds,
    StreamRange,
    check_partitions,
    lost,
    read_bounds,
)
from headwater.pipeline.source.read import RangeReading
from headwater.pipeline.source.spark_classes import DataSourceStreamReader, InputPartition

ID: Final = "id"
"""The key of the topic's id, beside its partition numbers."""

Offsets = dict[str, dict[str, Any]]
"""Such as ``{"orders": {"id": "6f0c…", "0": 17, "1": 23}}``."""


class HeadwaterStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads topics as they grow. It lives in one process for the duration of the query."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        # Executors get copies of this object, where these stay None.
        self._store: StoreThread | None = None
        self._pins: KeptPins | None = None
        self._group: ReportedGroup | None = None
        self._planned: Offsets = {}
        self._reported: Offsets = {}

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        store = self._opened()
        return store.run(self._initial(store))

    def latestOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        # Spark calls this after it has finished the last planned batch; it commits that batch only
        # before the next one.
        self._report(self._planned)
        store = self._opened()
        bounds = store.run(read_bounds(store.meta, self._options))
        return _offsets([(each, each.end) for each in bounds])

    def partitions(self, start: Offsets, end: Offsets) -> list[Any]:
        store = self._opened()
        planned = [InputPartition(part) for part in store.run(self._plan(store, start, end))]
        self._planned = end
        return planned

    def read(self, partition: Any) -> Iterator[Any]:
        return RangeReading(self._options, self._columns, ReadFilter()).batches(partition.value)

    def commit(self, end: Offsets) -> None:
        """Records below ``end`` were read; release their pins."""
        if self._pins is not None:
            self._pins.moved({topic: dict(offsets) for topic, offsets in end.items()})
        self._report(end)

    def _report(self, end: Offsets) -> None:
        """Commit ``end`` to the consumer group, if there is one."""
        if not self._options.group or end == self._reported:
            return
        if self._group is None:
            self._group = ReportedGroup(self._options.bootstrap, self._options.group)
        self._reported = end
        self._group.report(
            {
                topic: {int(name): offset for name, offset in offsets.items() if name != ID}
                for topic, offsets in end.items()
            }
        )

    def stop(self) -> None:
        """Release the pins. If Spark kills this process instead, they expire."""
        if self._pins is not None:
            self._pins.close()
        if self._store is not None:
            self._store.close()
        self._pins = self._store = None

    def _opened(self) -> StoreThread:
        if self._store is None:
            self._store = open_thread(self._options.metadata_url)
            self._pins = KeptPins(self._store)
        return self._store

    async def _initial(self, store: StoreThread) -> Offsets:
        bounds = await read_bounds(store.meta, self._options)
        starting = self._options.starting
        check_partitions(starting, bounds, "startingOffsets")
        return _offsets(
            [
                (each, await resolve_one(store.meta, self._options, starting, each))
                for each in bounds
            ]
        )

    async def _plan(self, store: StoreThread, start: Offsets, end: Offsets) -> list[StreamRange]:
        """The ranges of a batch.

        When a query starts, Spark plans its last batch again, even if that batch was finished. So
        lost records must not fail the planning, but the tasks that read them.
        """
        bounds = await read_bounds(store.meta, self._options)
        by_id = {(each.topic, each.topic_id, str(each.partition)): each for each in bounds}
        found: list[StreamRange] = []
        spans: list[tuple[PartitionBounds, int, int]] = []
        for topic, after in end.items():
            before = start.get(topic, {})
            for partition in after.keys() - {ID}:
                there = by_id.get((topic, after[ID], partition))
                try:
                    spans += _span(topic, partition, before, after, there)
                except OffsetOutOfRange as error:
                    found.append(_failing(topic, int(partition), str(error)))
                    # With failOnDataLoss=false, the remaining records are read.
                    if there is not None:
                        spans.append((there, there.log_start, after[partition]))
        if self._options.fail_on_data_loss and found:
            return found
        assert self._pins is not None
        await self._pins.hold([(each, low) for each, low, _ in spans])
        ranges: list[StreamRange] = []
        for each, low, high in spans:
            ranges += await plan_range(store.meta, self._options, ReadFilter(), each, low, high)
        return ranges


def _span(
    topic: str,
    partition: str,
    before: dict[str, Any],
    after: dict[str, Any],
    there: PartitionBounds | None,
) -> list[tuple[PartitionBounds, int, int]]:
    """The range that a batch reads of a partition, if any. Raises ``OffsetOutOfRange``."""
    high = after[partition]
    low = before.get(partition)
    if low == high and before[ID] == after[ID]:
        return []
    if there is None:
        raise OffsetOutOfRange(
            f"topic {topic!r} was deleted before its last records were read; "
            "with option failOnDataLoss=false they are skipped"
        )
    if before and before[ID] != there.topic_id:
        raise OffsetOutOfRange(
            f"topic {topic!r} was deleted and created again since the last batch; "
            "with option failOnDataLoss=false the new topic is read from its beginning"
        )
    if low is None:
        # A new partition that begins above offset 0 has lost no records.
        return [(there, there.log_start, high)]
    if low < there.log_start:
        raise lost(there.name, low, there.log_start)
    return [(there, low, high)]


def _failing(topic: str, partition: int, failure: str) -> StreamRange:
    return StreamRange(topic, partition, 0, 0, 0, (), failure=failure)


def _offsets(found: list[tuple[PartitionBounds, int]]) -> Offsets:
    offsets: Offsets = {}
    for bounds, offset in found:
        offsets.setdefault(bounds.topic, {ID: bounds.topic_id})[str(bounds.partition)] = offset
    return offsets
