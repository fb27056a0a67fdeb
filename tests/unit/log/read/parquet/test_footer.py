import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.read.parquet.footer import FooterDamage, describe
from tests.support.log.parquet_damage import small_file


def footer_of(content: bytes) -> bytes:
    return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]


def test_it_says_what_arrow_says() -> None:
    table = pa.table(
        {
            "offset": pa.array(range(-5, 5), pa.int64()),
            "name": pa.array(["a", "b"] * 5),
            "pairs": pa.array([[{"k": 1, "v": 2.5}]] * 10),
            "flag": pa.array([True] * 10),
            "small": pa.array([None, *range(9)], pa.int32()),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=4, write_page_index=True)
    arrow = pq.read_metadata(file)
    found = describe(footer_of(file.getvalue()))
    assert len(found.groups) == arrow.num_row_groups
    assert len(found.types) == arrow.num_columns
    for number, group in enumerate(found.groups):
        there = arrow.row_group(number)
        assert group.rows == there.num_rows
        for place, column in enumerate(group.columns):
            wanted = there.column(place)
            assert ".".join(column.path) == wanted.path_in_schema
            assert column.length == wanted.total_compressed_size
            pages = [wanted.data_page_offset]
            if wanted.has_dictionary_page:
                pages.append(wanted.dictionary_page_offset)
            assert column.first_byte == min(pages)
            integer = wanted.physical_type in ("INT32", "INT64")
            statistics = wanted.statistics
            assert (column.values, column.nulls) == (wanted.num_values, statistics.null_count)
            bounds = (statistics.min_raw, statistics.max_raw) if integer else None
            assert column.bounds == bounds


@given(st.binary(max_size=200))
def test_any_bytes_give_a_description_or_damage(data: bytes) -> None:
    try:
        describe(data)
    except FooterDamage:
        return


@given(st.data())
def test_a_cut_footer_is_damage(data: st.DataObject) -> None:
    footer = footer_of(small_file())
    with pytest.raises(FooterDamage):
        describe(footer[: data.draw(st.integers(0, len(footer) - 1))])


def test_deep_nesting_is_damage() -> None:
    with pytest.raises(FooterDamage, match="nested"):
        describe(b"\xfc" * 10_000 + b"\x00")


def leaf(name: int, value: bytes) -> bytes:
    """Statistics of an INT32 with one binary field."""
    return bytes([name << 4 | 8, len(value)]) + value + b"\x00"


def footer_with(statistics: bytes) -> bytes:
    """A footer of one INT32 column: its schema, and a row group."""
    column = (
        b"\x15\x02"  # 1: type
        b"\x29\x18\x01a"  # 3: path
        b"\x26\x02"  # 5: values
        b"\x26\x02"  # 7: bytes
        b"\x26\x08"  # 9: place
        b"\x3c" + statistics + b"\x00"  # 12
    )
    group = b"\x19\x1c\x3c" + column + b"\x00\x26\x02\x00"  # 1: columns, 3: rows
    return b"\x29\x1c\x15\x02\x00\x29\x1c" + group + b"\x00"


@pytest.mark.parametrize("name", [1, 2, 5, 6])
def test_a_value_of_another_length_than_its_column_is_damage(name: int) -> None:
    assert describe(footer_with(leaf(name, b"1234"))).groups[0].rows == 1
    with pytest.raises(FooterDamage, match="a wrong length"):
        describe(footer_with(leaf(name, b"12345")))


def test_a_field_that_is_there_twice_is_damage() -> None:
    """Arrow reads the fields of both into one."""
    hidden = leaf(5, b"") + b"\x08\x18" + leaf(6, b"1234")
    with pytest.raises(FooterDamage, match="twice"):
        describe(footer_with(hidden))
