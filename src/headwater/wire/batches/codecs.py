"""The compression codecs of record batches, by the number in a batch's attributes.

Output is readable by the Java client: lz4 frames have independent blocks, because it refuses linked
ones, and snappy has the framing of its ``SnappyOutputStream`` (xerial). Snappy input may have that
framing or be raw, as librdkafka writes it.
"""

from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from struct import Struct
from typing import Final

import cramjam

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
XERIAL_HEADER: Final = XERIAL_MAGIC + Struct(">ii").pack(1, 1)
XERIAL_BLOCK_SIZE: Final = 32 * 1024
"""The block size of the Java client; other readers allocate buffers of this size."""

_SIZE: Final = Struct(">i")
_FIRST_GUESS: Final = 64 * 1024
_MAPPED: Final = 1024 * 1024
_OUTPUT_FULL: Final = "failed to write whole buffer"
"""The error text of cramjam if the output does not fit, for all codecs."""


def codec_named(number: int) -> Codec:
    """Raises ``UnsupportedCompressionType`` for an unknown number."""
    try:
        return Codec(number)
    except ValueError:
        raise UnsupportedCompressionType(f"no codec has number {number}") from None


def compress(codec: int, data: Buffer) -> bytes:
    """Compress at the codec's default level."""
    match codec_named(codec):
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Codec.SNAPPY:
            return _compress_xerial(data)
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(codec: int, data: Buffer, limit: int) -> memoryview:
    """Decompress with memory of at most a small multiple of the result or ``limit``.

    Raises ``CorruptMessage`` for invalid input, ``InvalidRecord`` if the result would be larger
    than ``limit``.
    """
    match codec_named(codec):
        case Codec.NONE:
            if len(data) > limit:
                raise _too_large()
            return memoryview(data)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit)
        case other:
            return _decompress_growing(_INTO[other], data, limit)


def decompress_into(codec: int, data: Buffer, output: Buffer) -> int | None:
    """Decompress into ``output``; returns the size, or None if it does not fit.

    Raises ``CorruptMessage`` for invalid input.
    """
    into = _INTO.get(codec_named(codec))
    if into is not None:
        return _try_into(into, data, output)
    try:
        result = decompress(codec, data, len(output))
    except InvalidRecord:
        return None
    memoryview(output)[: len(result)] = result
    return len(result)


def decompress_start(codec: int, data: Buffer, room: int) -> tuple[memoryview, bool]:
    """The first ``room`` bytes of the decompressed data, and whether that is all.

    Snappy returns nothing unless all fits. Raises ``CorruptMessage`` for invalid input.
    """
    if codec == Codec.NONE:
        return memoryview(data), True
    # A memory mapping uses memory only for written pages, and frees it at once.
    output = memoryview(mmap(-1, room) if room >= _MAPPED else bytearray(room))
    size = decompress_into(codec, data, output)
    if size is not None:
        return output[:size], True
    return output[: 0 if codec == Codec.SNAPPY else room], False


_Into = Callable[[Buffer, Buffer], int]

_INTO: Final[dict[Codec, _Into]] = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}


def _decompress_growing(into: _Into, data: Buffer, limit: int) -> memoryview:
    """Grow the output until it fits, because the formats do not state the size reliably."""
    capacity = min(limit, max(_FIRST_GUESS, 4 * len(data)))
    while True:
        output = bytearray(capacity)
        size = _try_into(into, data, output)
        if size is not None:
            return memoryview(output)[:size]
        if capacity >= limit:
            raise _too_large()
        capacity = min(limit, 4 * capacity)


def _try_into(into: _Into, data: Buffer, output: Buffer) -> int | None:
    try:
        return into(data, output)
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            return None
        raise CorruptMessage(f"compressed records do not decompress: {error}") from None


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_SIZE]))
        parts += [_SIZE.pack(len(block)), block]
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> memoryview:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return memoryview(_decompress_block(data, limit))
    position, size = len(XERIAL_HEADER), 0
    blocks = []
    while position < len(data):
        if len(data) - position < _SIZE.size:
            raise CorruptMessage("a snappy block's length is cut short")
        (length,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if length < 0 or length > len(data) - position:
            raise CorruptMessage(f"a snappy block of {length} bytes is cut short")
        block = _decompress_block(data[position : position + length], limit - size)
        blocks.append(block)
        size += len(block)
        position += length
    return memoryview(b"".join(blocks))


def _decompress_block(block: memoryview, limit: int) -> bytearray:
    """A raw block states its size; check it against ``limit`` and snappy's maximum ratio."""
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit:
            raise _too_large()
        if size > 64 * len(block):
            raise CorruptMessage(f"{len(block)} bytes of snappy cannot hold {size}")
        output = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"compressed records do not decompress: {error}") from None
    return output


def _too_large() -> InvalidRecord:
    return InvalidRecord("compressed records are larger than allowed for one batch")
