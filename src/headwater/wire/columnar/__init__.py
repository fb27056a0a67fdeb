"""Record batches to Arrow columns without a Python object per record (extra ``table``)."""

from headwater.wire.columnar.decoder import decode
from headwater.wire.columnar.schema import SCHEMA

__all__ = ["SCHEMA", "decode"]
