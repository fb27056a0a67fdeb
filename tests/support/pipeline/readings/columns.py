"""Comparing columns of millions of records, and naming the first record that differs."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.wire.columnar.schema import SCHEMA


class Different(AssertionError):
    """Two readings of a partition differ; the message has the first record that does."""


def in_order(table: Any, columns: tuple[str, ...]) -> Any:
    """These columns with our types, by offset; what is there twice is there twice."""
    found = table.select(columns)
    offsets = found.column("offset")
    if len(offsets) > 1 and not pc.all(pc.greater(offsets[1:], offsets[:-1])).as_py():
        found = found.sort_by("offset")
    return found.cast(pa.schema([_plain(SCHEMA.field(name)) for name in columns]))


def _plain(field: Any) -> Any:
    """Engines differ in what they call nullable; values are compared, not that."""
    kind = field.type
    if pa.types.is_list(kind):
        pairs = pa.struct([pa.field(each.name, each.type) for each in kind.value_type])
        kind = pa.list_(pa.field("element", pairs))
    return pa.field(field.name, kind)


def assert_same(name: str, found: Any, expected: Any) -> None:
    """Raises ``Different`` unless two tables of ``in_order`` are equal, row by row."""
    if found.num_rows != expected.num_rows:
        row = _first_row(found, expected, min(found.num_rows, expected.num_rows))
        raise Different(
            f"{name}: {found.num_rows} records in place of {expected.num_rows}; "
            f"{_told(found, expected, row)}"
        )
    if not found.equals(expected):
        row = _first_row(found, expected, found.num_rows)
        raise Different(f"{name}: {_told(found, expected, row)}")


def _first_row(found: Any, expected: Any, rows: int) -> int:
    """The first row that differs, by halves; ``rows`` where none does."""
    if found.slice(0, rows).equals(expected.slice(0, rows)):
        return rows
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        if found.slice(low, middle - low).equals(expected.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _told(found: Any, expected: Any, row: int) -> str:
    texts = []
    for table in (found, expected):
        (one,) = table.slice(row, 1).to_pylist() or [None]
        texts.append(f"{one!r:.600}")
    return f"row {row} is {texts[0]} in place of {texts[1]}"
