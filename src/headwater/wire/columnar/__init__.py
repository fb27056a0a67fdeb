"""Conversion of record batches to Arrow and back, compiled by numba (extra ``table``).

- ``decoder``: record batches to an Arrow record batch
- ``kernel``: the compiled loop of the decoder
- ``encoder``: Arrow to record batches
- ``encode_kernel``: the compiled loop of the encoder
- ``schema``: the Arrow columns
"""

from headwater.wire.columnar.decoder import decode
from headwater.wire.columnar.encoder import encode
from headwater.wire.columnar.schema import SCHEMA

__all__ = ["SCHEMA", "decode", "encode"]
