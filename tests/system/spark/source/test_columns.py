"""The comparison of readings finds whatever differs, and says where."""

from typing import Any

import pyarrow as pa
import pytest

from tests.support.pipeline.readings.columns import Different, assert_same, in_order
from tests.support.pipeline.readings.mixed import BINARY_KEYS, COLUMNS, RecordBlock

ROWS = 20_000


def reading() -> Any:
    return in_order(pa.Table.from_batches([RecordBlock(ROWS, 7, BINARY_KEYS).records()]), COLUMNS)


def changed(table: Any, row: int, column: str, value: Any) -> Any:
    """The table with one cell set."""
    (one,) = table.slice(row, 1).to_pylist()
    middle = pa.Table.from_pylist([{**one, column: value}], table.schema)
    return pa.concat_tables([table.slice(0, row), middle, table.slice(row + 1)])


def cell(table: Any, row: int, column: str) -> Any:
    return table.column(column)[row].as_py()


def test_the_same_records_in_other_pieces_are_the_same() -> None:
    table = reading()
    pieces = pa.concat_tables([table.slice(at, 999) for at in range(0, ROWS, 999)])
    assert_same("pieces", pieces, table)
    assert_same("backwards", in_order(pieces.sort_by([("offset", "descending")]), COLUMNS), table)


@pytest.mark.parametrize("row", [0, 1, 9_999, 13_331, ROWS - 1])
def test_one_changed_byte_of_a_value_is_found(row: int) -> None:
    table = reading()
    value = cell(table, row, "value") or b""
    other = changed(table, row, "value", value[:-1] + bytes([(value or b"?")[-1] ^ 1]))
    with pytest.raises(Different, match=rf"^x: row {row} is \{{'offset': {row},"):
        assert_same("x", other, table)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key", b"other"),
        ("timestamp", 1_700_000_000_001_000),
        ("headers", [{"key": b"h", "value": None}, {"key": b"h", "value": b""}]),
    ],
)
def test_a_change_in_any_column_is_found(column: str, value: Any) -> None:
    table = reading()
    with pytest.raises(Different, match="row 777 is"):
        assert_same("x", changed(table, 777, column, value), table)


def test_null_and_empty_are_not_the_same() -> None:
    table = changed(reading(), 5, "value", None)
    with pytest.raises(Different, match="row 5 is"):
        assert_same("x", changed(table, 5, "value", b""), table)


def test_a_record_that_is_missing_or_there_twice_is_found() -> None:
    table = reading()
    missing = pa.concat_tables([table.slice(0, 300), table.slice(301)])
    with pytest.raises(Different, match="19999 records in place of 20000; row 300 is"):
        assert_same("x", missing, table)
    twice = in_order(pa.concat_tables([table, table.slice(300, 1)]), COLUMNS)
    with pytest.raises(Different, match="20001 records in place of 20000; row 301 is"):
        assert_same("x", twice, table)
    with pytest.raises(Different, match="row 19999 is None in place of"):
        assert_same("x", table.slice(0, ROWS - 1), table)
