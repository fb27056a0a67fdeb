from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import ConfigurationError, InvalidRecord
from headwater.tables.commit.changes import append_files
from headwater.tables.files.object_writer import create_object
from headwater.tables.files.parquet import FileTarget, write_range
from headwater.tables.files.row_groups import row_ends, row_groups
from headwater.tables.schema import ARROW, ICEBERG, to_table
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.columnar import decode
from tests.support.tables.world import NAME, TablesWorld, record
from tests.support.wire.batches import codecs, headers, optional_bytes

COLUMNS = ("offset", "timestamp", "key", "value", "headers")

gapped_records = st.lists(
    st.tuples(st.integers(1, 50), st.integers(-1, 2**41), optional_bytes, optional_bytes, headers),
    min_size=1,
    max_size=20,
)


def place(rows: list[Any]) -> list[Record]:
    """Records whose offsets have the gaps that a compacted or transactional stream has."""
    records, offset = [], 0
    for gap, *rest in rows:
        offset += gap
        records.append(Record(offset, *rest))
    return records


def as_rows(records: list[Record]) -> list[Any]:
    return [
        (
            one.offset,
            one.timestamp * 1000,
            one.key,
            one.value,
            [{"key": key, "value": value} for key, value in one.headers],
        )
        for one in records
    ]


def read_rows(table: Any) -> list[Any]:
    columns = [table.column(name) for name in COLUMNS]
    columns[1] = columns[1].cast(pa.int64())
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=gapped_records, codec=codecs, target=st.integers(1, 400))
def test_what_was_produced_is_what_a_table_reader_gets(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], codec: int, target: int
) -> None:
    world = TablesWorld.under(tmp_path_factory.mktemp("world"))
    records = place(rows)
    cut = len(records) // 2
    batches = [
        decode(
            encode_batch(part, codec=codec, producer_id=7, producer_epoch=3, base_sequence=11), 4
        )
        for part in (records[:cut], records[cut:])
        if part
    ]
    file = FileTarget(
        objects_url=world.objects_url, key="tables/id-1/data/4/f.parquet", partition=4,
        start=0, end=2000, notes={},
    )  # fmt: skip
    written = write_range(batches, file, row_group_bytes=target)
    assert (written.rows, written.start, written.end) == (len(records), 0, 2000)
    assert written.min_timestamp == min(one.timestamp for one in records)
    assert written.max_timestamp == max(one.timestamp for one in records)
    stored = pq.read_table(world.directory / "objects" / file.key)
    assert read_rows(stored) == as_rows(records)
    assert stored.column("partition").unique().to_pylist() == [4]
    assert stored.column("producer_epoch").unique().to_pylist() == [3]
    assert stored.column("record_crc").null_count == len(records)


def test_the_table_reads_back_what_was_appended(world: TablesWorld) -> None:
    odd = [
        Record(3, 5, None, b"", ((b"\xff\xfe", None), (b"", b"x"), (b"\xff\xfe", b"y"))),
        Record(9, -1, b"", None),
    ]
    target = world.target()
    append_files(target, [world.append(0, 0, 12, records=odd)])
    scanned = target.catalog.load_table(NAME).scan().to_arrow()
    assert read_rows(scanned) == as_rows(odd)


def test_columns_have_their_field_ids_for_ever(world: TablesWorld) -> None:
    file = world.write(0, 0, 3)
    found = pq.ParquetFile(world.directory / "objects" / file.key).schema_arrow
    assert found.equals(ARROW)
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in found}
    assert ids == {
        "partition": 1, "offset": 2, "timestamp": 3, "key": 4, "value": 5, "headers": 6,
        "producer_id": 7, "producer_epoch": 8, "base_sequence": 9, "attributes": 10,
        "record_crc": 11,
    }  # fmt: skip
    assert {field.name: field.field_id for field in ICEBERG.fields} == ids
    assert ICEBERG.find_field("headers.element.key").field_id == 13
    assert ICEBERG.find_field("headers.element.value").field_id == 14


def test_row_groups_hold_runs_of_offsets_and_say_which(world: TablesWorld) -> None:
    records = [Record(offset, 1000 + offset, b"key", b"x" * 500) for offset in range(100)]
    file = world.write(0, 0, 100, records=records, row_group_bytes=5_000)
    footer = pq.ParquetFile(world.directory / "objects" / file.key).metadata
    assert footer.num_row_groups == 12
    assert footer.metadata[b"headwater.end"] == b"100"
    assert footer.metadata[b"headwater.topic"] == b"orders"
    following = 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        assert group.sorting_columns == (pq.SortingColumn(1),)
        offsets, times, values = group.column(1), group.column(2), group.column(4)
        assert offsets.statistics.min == following
        following = offsets.statistics.max + 1
        assert times.statistics.has_min_max
        assert not values.is_stats_set
        assert values.compression == "ZSTD"
        assert "DELTA_BINARY_PACKED" in offsets.encodings
        assert not values.has_dictionary_page
    assert following == 100


def test_iceberg_has_the_statistics_of_a_file(world: TablesWorld) -> None:
    target = world.target()
    append_files(target, [world.append(2, 10, 20, holes=[(0, 10)])])
    table = target.catalog.load_table(NAME)
    (task,) = table.scan(row_filter="offset >= 12 and partition = 2").plan_files()
    assert task.file.record_count == 10
    assert task.file.partition[0] == 2
    assert set(task.file.lower_bounds) == {1, 2, 3, 7}
    assert list(table.scan(row_filter="offset >= 20").plan_files()) == []
    assert list(table.scan(row_filter="partition = 1").plan_files()) == []
    assert list(table.scan(row_filter="timestamp < '2001-01-01T00:00:00+00:00'").plan_files()) == []


@given(
    sizes=st.lists(st.lists(st.integers(0, 90), max_size=8), max_size=5),
    target=st.integers(1, 500),
)
@settings(max_examples=50, deadline=None)
def test_row_groups_are_no_larger_than_asked_for_or_have_one_row(
    sizes: list[list[int]], target: int
) -> None:
    batches, offset = [], 0
    for rows in sizes:
        records = [Record(offset + n, 0, None, b"v" * size) for n, size in enumerate(rows)]
        offset += len(records)
        if records:
            batches.append(to_table(decode(encode_batch(records), 0)).slice(len(records) // 3))
    groups = list(row_groups(batches, target))
    for group in groups:
        (whole,) = group.combine_chunks().to_batches()
        assert int(row_ends(whole)[-1]) <= target or group.num_rows == 1
    expected = [value for one in batches for value in one.column("offset").to_pylist()]
    assert [value for one in groups for value in one.column("offset").to_pylist()] == expected


@pytest.mark.parametrize("offsets", [(0, 5), (7, 30), (8, 7), (8, 8)])
def test_offsets_out_of_order_or_range_leave_no_object(
    world: TablesWorld, offsets: tuple[int, int]
) -> None:
    batches = [decode(encode_batch([record(0, offset)]), 0) for offset in offsets]
    file = FileTarget(
        objects_url=world.objects_url, key="tables/x/f.parquet", partition=0,
        start=6, end=20, notes={},
    )  # fmt: skip
    with pytest.raises(InvalidRecord, match="do not ascend"):
        write_range(batches, file)
    assert not list((world.directory / "objects").rglob("*.parquet"))


def test_a_range_without_records_is_a_file_without_rows(world: TablesWorld) -> None:
    file = world.write(0, 5, 9, records=[])
    assert (file.rows, file.min_timestamp, file.max_timestamp) == (0, -1, -1)
    assert pq.read_table(world.directory / "objects" / file.key).num_rows == 0


def test_an_object_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"

    def fail() -> None:
        with create_object(url, "a/b") as sink:
            sink.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not (tmp_path / "a/b").exists()
    with create_object(url, "a/b") as sink:
        sink.write(b"whole")
        assert not (tmp_path / "a/b").exists()
    assert (tmp_path / "a/b").read_bytes() == b"whole"
    assert list((tmp_path / ".tmp").iterdir()) == []


def test_memory_is_no_place_for_other_processes() -> None:
    with pytest.raises(ConfigurationError, match="file:/// and s3:// only"):
        create_object("memory://", "a/b").__enter__()
