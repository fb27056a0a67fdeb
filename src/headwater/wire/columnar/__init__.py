"""Record batches to Arrow and back without a Python object per record (extra ``table``)."""

from headwater.wire.columnar.decoder import decode
from headwater.wire.columnar.encoder import encode
from headwater.wire.columnar.schema import SCHEMA

__all__ = ["SCHEMA", "decode", "encode"]
