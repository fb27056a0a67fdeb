from collections.abc import Sequence
from typing import Any

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.tables.commit.changes import append_files
from headwater.tables.commit.watermarks import Append
from headwater.tables.files.parquet import FileTarget
from headwater.tables.files.partitioned import write_copies
from headwater.tables.files.transforms import partition_values
from headwater.tables.partitioning import partition_spec
from headwater.tables.schema import ICEBERG
from headwater.tables.topic_tables import TopicTable, ensure_table
from headwater.topic_config.table import parse_partitioning
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.columnar import decode
from tests.support.tables.world import NAME, OWNER, TablesWorld, rows, span

HOUR = 3_600_000


def some_records(count: int) -> list[Record]:
    return [
        Record(n, 1_700_000_000_000 + n * 5 * HOUR, None if n % 4 == 0 else b"key%d" % n, b"v")
        for n in range(count)
    ]


@settings(deadline=None, max_examples=30)
@given(
    times=st.lists(st.integers(-(2**41), 2**41), min_size=1, max_size=5),
    key=st.none() | st.binary(max_size=40),
)
def test_partition_values_are_those_of_pyiceberg(times: list[int], key: bytes | None) -> None:
    records = [Record(number, time, key, None) for number, time in enumerate(times)]
    batch = decode(encode_batch(records), 3)
    text = "partition, year(timestamp), month(timestamp), day(timestamp), hour(timestamp), "
    terms = parse_partitioning(text + "bucket(7, key)")
    spec = partition_spec(text + "bucket(7, key)")
    sources: dict[str, Sequence[Any]] = {
        "partition": [3] * len(times),
        "timestamp": [time * 1000 for time in times],
        "key": [key] * len(times),
    }
    for term, field in zip(terms, spec.fields, strict=True):
        kind = ICEBERG.find_type(field.source_id)
        transform = field.transform.transform(kind)
        source = sources[term.column]
        assert partition_values(batch, term).tolist() == [transform(value) for value in source]


def test_the_hash_is_the_reference_one() -> None:
    keys = [b"x" * length + bytes([length]) for length in range(30)]
    batch = decode(encode_batch([Record(n, 0, key, None) for n, key in enumerate(keys)]), 0)
    (term,) = parse_partitioning("bucket(1000, key)")
    expected = [(mmh3.hash(key) & 0x7FFFFFFF) % 1000 for key in keys]
    assert partition_values(batch, term).tolist() == expected


@pytest.mark.parametrize("max_open", [1, 64])
@pytest.mark.parametrize(
    "partitioning",
    ["day(timestamp)", "hour(timestamp), bucket(3, key)", "partition, bucket(2, key)"],
)
def test_a_copy_has_every_record_in_its_partition(
    world: TablesWorld, partitioning: str, max_open: int
) -> None:
    target = TopicTable(
        catalog=world.catalog(), name=NAME, owner=OWNER, objects_url=world.objects_url
    )
    ensure_table(target, partitioning)
    where = FileTarget(
        objects_url=world.objects_url, key="tables/id-1/data/0/0-40-job-a.parquet", partition=0,
        start=0, end=40, notes={},
    )  # fmt: skip
    records = some_records(40)
    batches = [decode(encode_batch(records[:25]), 0), decode(encode_batch(records[25:]), 0)]
    files = write_copies(batches, where, partitioning, max_open=max_open)
    assert len({file.key for file in files}) == len(files) > 1
    append_files(target, [Append(job="j", stream=100, start=0, end=40, files=files)])
    assert rows(target) == span(0, 0, 40)
    table = target.catalog.load_table(NAME)
    found = table.scan(row_filter="timestamp < '2023-11-16T00:00:00+00:00'").to_arrow()
    expected = [one.offset for one in records if one.timestamp < 1_700_092_800_000]
    assert sorted(found.column("offset").to_pylist()) == expected
    by_key = table.scan(row_filter="key is null").to_arrow()
    assert by_key.num_rows == 10
