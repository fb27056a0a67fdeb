"""Kafka's variable-length integers: seven bits per byte, lowest first."""

from typing import Final

from headwater.errors import InvalidRecord

SHORT: Final = tuple(bytes([value]) for value in range(128))
"""The encodings of all one-byte values."""


def encode_unsigned(value: int) -> bytes:
    """Encode a value that is not negative.

    >>> encode_unsigned(300).hex()
    'ac02'
    """
    if value < 0x80:
        return SHORT[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_signed(value: int) -> bytes:
    """Encode with the sign folded into the lowest bit (zigzag).

    >>> encode_signed(-1).hex(), encode_signed(1).hex()
    ('01', '02')
    """
    return encode_unsigned(value << 1 if value >= 0 else (~value << 1) | 1)


def decode_signed(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """The value at ``position`` and its end. Reads no byte at or after ``end``.

    Raises ``InvalidRecord`` if it does not end before ``end`` or has more than 64 bits.
    """
    value = shift = 0
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            break
    raise InvalidRecord(f"a variable-length integer does not end properly before byte {end}")
