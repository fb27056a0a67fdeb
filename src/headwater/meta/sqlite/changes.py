"""How the change table holds one revision's changes.

A value of some size stands there only as a reference: it is in ``kv`` under the same revision,
and where it is not, a later change has replaced it and watches are given that one instead.
"""

from collections.abc import Iterable

import msgspec

from headwater.meta.feed import Item

REFERENCED_BYTES = 32 * 1024

Stored = tuple[str, bytes | bool | None]
"""An ``Item`` whose value is True where it has to be looked up."""

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
