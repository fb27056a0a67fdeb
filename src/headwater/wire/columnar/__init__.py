"""Record batches to Arrow and back without a Python object per record (extra ``table``).

- ``schema``: the Arrow columns of a topic's records.
- ``decoder``: record batches to Arrow.
- ``kernel``: the decoder's loop over records, compiled by numba.
- ``encoder``: Arrow to record batches.
- ``encode_kernel``: the encoder's loop over rows, compiled by numba.
"""

from headwater.wire.columnar.decoder import decode
from headwater.wire.columnar.encoder import encode
from headwater.wire.columnar.schema import SCHEMA

__all__ = ["SCHEMA", "decode", "encode"]
