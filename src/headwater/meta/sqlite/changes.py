"""How the change table stores the changes of one revision.

A large value is stored as a reference to the row in ``kv`` with the same revision. If that row has
a later revision, watches get the later change instead.
"""

from collections.abc import Iterable

import msgspec

from headwater.meta.feed import Item

REFERENCED_BYTES = 32 * 1024

Stored = tuple[str, bytes | bool | None]
"""An ``Item`` whose value is True if it must be read from ``kv``."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Stored])


def encode(items: Iterable[Item]) -> bytes:
    return _encoder.encode(
        [
            item if item[1] is None or len(item[1]) <= REFERENCED_BYTES else (item[0], True)
            for item in items
        ]
    )


def decode(stored: bytes) -> list[Stored]:
    return _decoder.decode(stored)
