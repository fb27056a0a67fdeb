"""The Arrow columns of a topic's records."""

from typing import Final

import pyarrow as pa

HEADERS: Final = pa.list_(
    pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])
)
"""A record's headers. Keys are bytes, because they need not be valid UTF-8."""

SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
        pa.field("producer_id", pa.int64(), nullable=False),
        pa.field("producer_epoch", pa.int32(), nullable=False),
        pa.field("base_sequence", pa.int32(), nullable=False),
        pa.field("attributes", pa.int32(), nullable=False),
    ]
)
"""The last four columns are fields of the batch, repeated for each record."""
