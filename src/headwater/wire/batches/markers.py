"""Transaction markers: the record of a control batch that ends a producer transaction.

The record, from Kafka's own ``EndTransactionMarker`` and ``ControlRecordType``::

    key    version i16 | type i16, 0 for ABORT and 1 for COMMIT
    value  version i16 | coordinator epoch i32

A control batch is not compressed. The producer id and epoch are in the batch's header, and its base
sequence is -1. Later versions of key or value only append fields.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headwater.errors import InvalidRecord
from headwater.wire.varint import decode_signed

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class MarkerType(IntEnum):
    """The outcome of a producer transaction."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker."""

    type: MarkerType
    coordinator_epoch: int

    @property
    def key(self) -> bytes:
        return _KEY.pack(0, self.type)

    @property
    def value(self) -> bytes:
        return _VALUE.pack(0, self.coordinator_epoch)


def parse_marker(records: memoryview) -> Marker | None:
    """The marker in a control batch's records; None for another kind of control record.

    >>> parse_marker(memoryview(bytes.fromhex("2000000008000000010c00000000000500")))
    Marker(type=<MarkerType.COMMIT: 1>, coordinator_epoch=5)
    """
    try:
        length, position = decode_signed(records, 0, len(records))
        end = position + length
        position += 1  # the record's attributes
        for _ in ("timestamp delta", "offset delta"):
            _, position = decode_signed(records, position, end)
        key, position = _bytes(records, position, end)
        value, _ = _bytes(records, position, end)
        _, kind = _KEY.unpack_from(key)
        _, coordinator_epoch = _VALUE.unpack_from(value)
        return Marker(MarkerType(kind), coordinator_epoch)
    except (InvalidRecord, struct.error, ValueError, IndexError):
        return None


def _bytes(records: memoryview, position: int, end: int) -> tuple[memoryview, int]:
    length, position = decode_signed(records, position, end)
    if length < 0 or position + length > end:
        raise InvalidRecord(f"a control record's field of {length} bytes does not fit")
    return records[position : position + length], position + length
