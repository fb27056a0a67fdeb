"""The columns of topics' tables, for Iceberg and for Arrow.

Field ids never change, because readers find columns by them. A new column gets the next free id; an
id is never used again for another column.
"""

from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StructType,
    TimestamptzType,
)

PARTITION_ID: Final = 1
OFFSET_ID: Final = 2
TIMESTAMP_ID: Final = 3
KEY_ID: Final = 4

ICEBERG: Final = Schema(
    NestedField(PARTITION_ID, "partition", IntegerType(), required=True),
    NestedField(OFFSET_ID, "offset", LongType(), required=True),
    NestedField(TIMESTAMP_ID, "timestamp", TimestamptzType(), required=True),
    NestedField(KEY_ID, "key", BinaryType()),
    NestedField(5, "value", BinaryType()),
    NestedField(
        6,
        "headers",
        ListType(
            element_id=12,
            element_type=StructType(
                NestedField(13, "key", BinaryType(), required=True),
                NestedField(14, "value", BinaryType()),
            ),
            element_required=True,
        ),
        required=True,
    ),
    NestedField(7, "producer_id", LongType(), required=True),
    NestedField(8, "producer_epoch", IntegerType(), required=True),
    NestedField(9, "base_sequence", IntegerType(), required=True),
    NestedField(10, "attributes", IntegerType(), required=True),
    NestedField(11, "record_crc", IntegerType()),
)
"""Header keys are bytes, because they need not be valid UTF-8. Times are UTC."""


def _field(name: str, kind: Any, number: int, *, required: bool = True) -> Any:
    return pa.field(
        name, kind, nullable=not required, metadata={b"PARQUET:field_id": b"%d" % number}
    )


_HEADER: Final = pa.struct(
    [_field("key", pa.binary(), 13), _field("value", pa.binary(), 14, required=False)]
)

ARROW: Final = pa.schema(
    [
        _field("partition", pa.int32(), PARTITION_ID),
        _field("offset", pa.int64(), OFFSET_ID),
        _field("timestamp", pa.timestamp("us", tz="UTC"), TIMESTAMP_ID),
        _field("key", pa.binary(), KEY_ID, required=False),
        _field("value", pa.binary(), 5, required=False),
        _field("headers", pa.list_(_field("element", _HEADER, 12)), 6),
        _field("producer_id", pa.int64(), 7),
        _field("producer_epoch", pa.int32(), 8),
        _field("base_sequence", pa.int32(), 9),
        _field("attributes", pa.int32(), 10),
        _field("record_crc", pa.int32(), 11, required=False),
    ]
)
"""The same schema for Parquet files."""


def to_table(batch: Any) -> Any:
    """Convert a ``pyarrow.RecordBatch`` of the decoder to the schema ``ARROW``, without copies.

    Without a column ``record_crc`` its values are null.
    """
    columns = []
    for field in ARROW:
        if field.name == "headers":
            columns.append(_headers(batch.column("headers")))
        elif field.name == "record_crc" and field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
        else:
            columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=ARROW)


def _headers(lists: Any) -> Any:
    """The same lists with the table's field names and ids."""
    kind = ARROW.field("headers").type
    pairs = lists.values
    renamed = pa.StructArray.from_arrays(
        [pairs.field(0), pairs.field(1)], fields=[_HEADER.field(0), _HEADER.field(1)]
    )
    return pa.ListArray.from_arrays(lists.offsets, renamed, type=kind)
