"""What a query plans to read, without Spark."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, Not

from headwater.errors import ConfigurationError, OffsetOutOfRange, UnknownTopicOrPartition
from headwater.log.formats.metadata_values import INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.formats.segment import encode_segment
from headwater.pipeline.object_reads import DirectoryReads
from headwater.pipeline.source.filters import Interval, ReadFilter, narrow
from headwater.pipeline.source.options import SourceOptions, parse_options
from headwater.pipeline.source.plan import plan_batch
from headwater.pipeline.source.ranges import PartitionBounds, StreamRange, cut
from headwater.pipeline.source.read import RangeReading, read_entries
from headwater.wire.batches.records import Record, encode_batch
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings.spark_source import place_options

EVERYTHING = ReadFilter()


def options(cluster: PipelineCluster, topic: str, **given: str) -> SourceOptions:
    return parse_options({**place_options(cluster), "topic": topic, **given})


def read(
    chosen: SourceOptions, wanted: ReadFilter = EVERYTHING, columns: Sequence[str] = ("offset",)
) -> list[tuple[Any, ...]]:
    """What a query reads of all its ranges."""
    reading = RangeReading(chosen, tuple(columns), wanted)
    return [
        tuple(row.values())
        for part in plan_batch(chosen, wanted)
        for batch in reading.batches(part)
        for row in batch.to_pylist()
    ]


def offsets(chosen: SourceOptions, wanted: ReadFilter = EVERYTHING) -> list[int]:
    return [row[0] for row in read(chosen, wanted)]


def test_offsets_begin_and_end_where_options_say(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    at = json.dumps({topic: {"0": 20}})
    to = json.dumps({topic: {"0": 30}})
    assert offsets(options(cluster, topic, startingOffsets=at, endingOffsets=to)) == list(
        range(20, 30)
    )
    assert offsets(options(cluster, topic, startingOffsets="latest")) == []
    assert len(offsets(options(cluster, topic, startingOffsets="earliest"))) == 100


async def test_times_begin_at_the_first_record_that_is_as_late(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 200, seed=1)
    await cluster.compact(topic)
    cluster.produce(topic, 100, seed=2)
    produced = cluster.consume(topic)
    for row in (produced[17], produced[240]):
        first = next(each.offset for each in produced if each.timestamp_ms >= row.timestamp_ms)
        chosen = options(cluster, topic, startingTimestamp=str(row.timestamp_ms))
        assert offsets(chosen) == list(range(first, 300))
        chosen = options(cluster, topic, endingTimestamp=str(row.timestamp_ms))
        assert offsets(chosen) == list(range(first))
    late = datetime.now(UTC).isoformat()
    assert offsets(options(cluster, topic, startingTimestamp=late)) == []


def test_deleted_records_are_a_loss_by_default(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    cluster.delete_records(topic, 0, 40)
    at = json.dumps({topic: {"0": 20}})
    with pytest.raises(OffsetOutOfRange, match="begins at offset 40"):
        plan_batch(options(cluster, topic, startingOffsets=at), ReadFilter())
    chosen = options(cluster, topic, startingOffsets=at, failOnDataLoss="false")
    assert offsets(chosen) == list(range(40, 100))
    assert offsets(options(cluster, topic)) == list(range(40, 100))
    beyond = json.dumps({topic: {"0": 101}})
    with pytest.raises(OffsetOutOfRange, match="ends at offset 100"):
        plan_batch(options(cluster, topic, endingOffsets=beyond), ReadFilter())


async def test_records_deleted_during_a_query_are_a_loss_by_default(
    cluster: PipelineCluster,
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    chosen = options(cluster, topic)
    (part,) = plan_batch(chosen, ReadFilter())
    moved = replace(part, entries=tuple(_gone(entry) for entry in part.entries))
    cluster.delete_records(topic, 0, 30)
    with pytest.raises(OffsetOutOfRange, match="begins at offset 30"):
        _offsets_of(chosen, moved)
    kept = options(cluster, topic, failOnDataLoss="false")
    assert _offsets_of(kept, moved) == list(range(30, 100))


def _gone(entry: bytes) -> bytes:
    """The entry as it was before its object was collected."""
    from headwater.meta.values import decode, encode

    old = decode(IndexEntry, entry)
    old.kind, old.key, old.data = WAL, "wal/gone.wo", None
    return encode(old)


def _offsets_of(chosen: SourceOptions, part: StreamRange) -> list[int]:
    batches = RangeReading(chosen, ("offset",), ReadFilter()).batches(part)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


async def test_conditions_leave_objects_and_row_groups_unread(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 2000, partitions=2, seed=3)
    await cluster.compact(topic)
    chosen = options(cluster, topic, maxPartitionBytes="10000")
    wanted = narrow(ReadFilter(), [EqualTo(("partition",), 1), LessThan(("offset",), 100)])
    assert len(plan_batch(chosen, wanted)) == 1 < len(plan_batch(chosen, ReadFilter())) / 2
    assert offsets(chosen, wanted) == list(range(100))
    with counted_reads() as whole:
        read(chosen, columns=("offset", "value"))
    with counted_reads() as narrowed:
        read(chosen, wanted, columns=("offset", "value"))
    assert sum(narrowed) < sum(whole) / 2
    with counted_reads() as few_columns:
        read(chosen, columns=("offset",))
    # Footers aside, which are the larger part of files as small as these.
    assert min(few_columns) < min(whole) / 10


@contextmanager
def counted_reads() -> Iterator[list[int]]:
    """The lengths of all reads of objects while the block runs."""
    lengths: list[int] = []
    original = DirectoryReads.read

    def counting(self: DirectoryReads, key: str, start: int, length: int) -> bytearray:
        lengths.append(length)
        return original(self, key, start, length)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DirectoryReads, "read", counting)
        yield lengths


def test_segments_are_read_like_chunks(tmp_path: Path) -> None:
    batches = [
        encode_batch([Record(start + n, 1000, b"k", b"v") for n in range(10)])
        for start in (0, 10, 20)
    ]
    parts, _ = encode_segment(b"".join(bytes(batch) for batch in batches), 0, 1)
    (tmp_path / "a.kfs").write_bytes(b"".join(bytes(part) for part in parts))
    length = (tmp_path / "a.kfs").stat().st_size
    entry = IndexEntry(
        start=0, end=30, kind=SEGMENT, length=length, size=0, max_timestamp=1000, created_ms=1,
        key="a.kfs",
    )  # fmt: skip
    found = read_entries([entry], DirectoryReads(tmp_path), 0, 5, 25, ("offset",), ReadFilter())
    assert [each for batch in found for each in batch.column("offset").to_pylist()] == list(
        range(5, 25)
    )


def _entry(start: int, end: int, kind: int, length: int) -> IndexEntry:
    return IndexEntry(
        start=start, end=end, kind=kind, length=length, size=0, max_timestamp=0, created_ms=0
    )


def test_ranges_meet_and_large_files_are_cut() -> None:
    entries = [
        _entry(0, 1000, PARQUET, 350),
        _entry(1000, 1010, WAL, 60),
        _entry(1010, 1020, WAL, 60),
        _entry(1020, 1030, INLINE, 20),
    ]
    bounds = PartitionBounds("t", "id", 0, 1, 0, 1030)
    parts = list(cut(bounds, 10, 1025, entries, 100))
    assert parts[0].start == 10
    assert parts[-1].end == 1025
    assert all(left.end == right.start for left, right in pairwise(parts))
    assert len([part for part in parts if part.end <= 1000]) == 4


def test_conditions_narrow_what_is_wanted_and_nothing_else_does() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    wanted = narrow(
        ReadFilter(),
        [
            GreaterThan(("offset",), 5),
            LessThan(("offset",), 9),
            In(("partition",), (3, 1)),
            GreaterThanOrEqual(("timestamp",), moment),
            Not(EqualTo(("offset",), 7)),
            EqualTo(("key",), b"k"),
            GreaterThan(("timestamp",), datetime(2030, 1, 1)),  # noqa: DTZ001 - of no known zone
        ],
    )
    assert wanted.offsets == Interval(6, 8)
    assert wanted.partitions == Interval(1, 3)
    assert wanted.times.low == round(moment.timestamp() * 1_000_000)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": "a", "topicPattern": "b"}, "either option topic or topicPattern"),
        ({}, "either option topic or topicPattern"),
        ({"topicPattern": "("}, "is not a regular expression"),
        ({"topic": "a", "startingOffsets": "{"}, "takes earliest, latest or JSON"),
        ({"topic": "a", "startingOffsets": '{"a": {"0": -3}}'}, "only -2"),
        ({"topic": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, "not both"),
        ({"topic": "a", "endingTimestamp": "noon"}, "takes milliseconds"),
        ({"topic": "a", "failOnDataLoss": "maybe"}, "takes true or false"),
        ({"topic": "a", "maxPartitionBytes": "0"}, "takes a number of bytes"),
        ({"topic": "a", "maxOffsetsPerTrigger": "5"}, "no admission control"),
        ({"topic": "a", "subscribe": "5"}, "has no option 'subscribe'"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_options({"metadata": "sqlite:////m.db", "objects": "file:///o", **given})


def test_a_stream_takes_no_end() -> None:
    with pytest.raises(ConfigurationError, match="a stream has no end"):
        parse_options({"topic": "a", "endingOffsets": "latest"}, streaming=True)


def test_offsets_of_partitions_that_are_not_read_are_refused(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    at = json.dumps({topic: {"7": 0}})
    with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-7"):
        plan_batch(options(cluster, topic, startingOffsets=at), ReadFilter())


def test_a_cluster_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/none.db"
    chosen = parse_options({"metadata": url, "objects": "file:///o", "topic": "a"})
    with pytest.raises(ConfigurationError, match="there is no cluster"):
        plan_batch(chosen, ReadFilter())
    assert not (tmp_path / "none.db").exists()
