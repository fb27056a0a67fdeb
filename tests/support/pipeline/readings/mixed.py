"""Records of every kind by the million, as Arrow columns: no Python object for each of them.

Keys, values and header values are null, empty, short or long; header keys are odd; timestamps come
in no order. A block is determined by its seed.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headwater.wire.columnar.schema import SCHEMA

TEXT_KEYS: Final = (b"", b"h", b"dup", "ключ".encode(), b"with space\n", b"k" * 300)
BINARY_KEYS: Final = (*TEXT_KEYS, b"\x00", b"k\x00k", b"\xff\xfe", bytes(range(256)))
"""Legal in the protocol, though not every client's library can show them."""

COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
"""The columns of a record that every reader must return."""

_NOW_MS: Final = 1_700_000_000_000
_HEADER_COUNTS: Final = (0, 0, 0, 0, 1, 2, 5)

Generator = np.random.Generator


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Records that have some things in common; the same ones whenever they are asked for."""

    rows: int
    seed: int
    header_keys: tuple[bytes, ...] = TEXT_KEYS
    alphabet: int = 256
    """How many different bytes a value has: few compress well."""
    keys: int = 0
    """How many different keys there are; 0: every kind of key, null and empty among them."""

    def records(self) -> Any:
        """A ``pyarrow.RecordBatch`` with the columns of ``COLUMNS``, its offsets from 0 on."""
        rng = np.random.default_rng(self.seed)
        columns = {
            "offset": pa.array(np.arange(self.rows, dtype=np.int64)),
            "timestamp": _timestamps(rng, self.rows),
            "key": self._keys(rng),
            "value": _bytes(rng, self.rows, longest=160, alphabet=self.alphabet),
            "headers": _headers(rng, self.rows, self.header_keys),
        }
        schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)

    def _keys(self, rng: Generator) -> Any:
        if not self.keys:
            return _bytes(rng, self.rows, longest=24, alphabet=16)
        names = pa.array([f"key-{number}".encode() for number in range(self.keys)], pa.binary())
        return names.take(pa.array(rng.integers(0, self.keys, self.rows)))


def _timestamps(rng: Generator, rows: int) -> Any:
    """Out of order, some of them the oldest there are."""
    times = _NOW_MS + rng.integers(-(10**9), 10**9, rows)
    times[rng.random(rows) < 0.01] = 1
    return pa.array(times * 1000).cast(SCHEMA.field("timestamp").type)


def _bytes(rng: Generator, rows: int, *, longest: int, alphabet: int) -> Any:
    """A tenth null, a tenth empty, one in a thousand ten times as long as others."""
    lengths = rng.integers(1, longest + 1, rows)
    lengths[rng.random(rows) < 0.001] *= 10
    chosen = rng.random(rows)
    lengths[chosen < 0.2] = 0
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = rng.integers(0, alphabet, offsets[-1], dtype=np.uint8)
    valid = np.packbits(chosen >= 0.1, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def _headers(rng: Generator, rows: int, keys: tuple[bytes, ...]) -> Any:
    counts = rng.choice(_HEADER_COUNTS, rows)
    first = np.zeros(rows + 1, np.int32)
    np.cumsum(counts, out=first[1:])
    total = int(first[-1])
    names = pa.array(keys, pa.binary()).take(pa.array(rng.integers(0, len(keys), total)))
    kind = SCHEMA.field("headers").type
    pairs = pa.StructArray.from_arrays(
        [names, _bytes(rng, total, longest=12, alphabet=256)], fields=list(kind.value_type)
    )
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(first)], children=[pairs])
