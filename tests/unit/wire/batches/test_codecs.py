import contextlib
import random
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from headwater.wire.batches.codecs import XERIAL_MAGIC, Codec, compress, decompress, decompress_into

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LIMIT = 64 * 1024 * 1024


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 1000, 32 * 1024, 32 * 1024 + 1, 1_000_000])
def test_what_is_compressed_comes_back(codec: Codec, size: int) -> None:
    for data in (bytes(size), random.Random(size).randbytes(size)):
        packed = compress(codec, data)
        assert decompress(codec, packed, LIMIT) == data
        assert decompress(codec, memoryview(packed), size) == data
        output = bytearray(size + 7)
        assert decompress_into(codec, packed, output) == size
        assert output[:size] == data


@pytest.mark.parametrize("codec", list(Codec))
def test_more_than_the_limit_is_refused(codec: Codec) -> None:
    packed = compress(codec, bytes(1_000_001))
    with pytest.raises(InvalidRecord):
        decompress(codec, packed, 1_000_000)
    assert decompress_into(codec, packed, bytearray(1_000_000)) is None


def test_a_bomb_ends_at_the_limit() -> None:
    bomb = bytes(cramjam.zstd.compress(bytes(400_000_000)))
    assert len(bomb) < 50_000
    with pytest.raises(InvalidRecord):
        decompress(Codec.ZSTD, bomb, 10_000_000)


def test_a_snappy_block_that_claims_gigabytes_is_refused_without_allocating_them() -> None:
    with pytest.raises(CorruptMessage):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), 2**40)
    with pytest.raises(InvalidRecord):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20), LIMIT)


def test_raw_snappy_is_read_too() -> None:
    data = b"abc" * 10_000
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), LIMIT) == data


def test_snappy_is_written_in_the_framing_of_the_java_client() -> None:
    data = random.Random(1).randbytes(40_000)
    packed = compress(Codec.SNAPPY, data)
    assert packed.startswith(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    (first,) = struct.unpack_from(">i", packed, 16)
    assert cramjam.snappy.decompress_raw_len(packed[20 : 20 + first]) == 32 * 1024


def test_lz4_frames_have_independent_blocks() -> None:
    flags = compress(Codec.LZ4, bytes(200_000))[4]
    assert flags >> 6 == 1
    assert flags & 0x20


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_named(number: int) -> None:
    with pytest.raises(UnsupportedCompressionType, match=str(number)):
        decompress(number, b"", LIMIT)
    with pytest.raises(UnsupportedCompressionType):
        compress(number, b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_stream_cut_anywhere_is_corrupt(codec: Codec) -> None:
    packed = compress(codec, random.Random(2).randbytes(3000))
    for end in range(1, len(packed) - 1, 37):
        with pytest.raises(CorruptMessage):
            decompress(codec, packed[:end], LIMIT)


@given(codec=st.sampled_from(COMPRESSING), data=st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_arbitrary_bytes_decompress_or_are_refused(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CorruptMessage, InvalidRecord):
        decompress(codec, data, LIMIT)


@given(
    codec=st.sampled_from(COMPRESSING),
    edits=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_mutated_streams_decompress_or_are_refused(
    codec: Codec, edits: list[tuple[int, int]]
) -> None:
    packed = bytearray(compress(codec, b"headwater" * 300))
    for position, value in edits:
        packed[position % len(packed)] = value
    with contextlib.suppress(CorruptMessage, InvalidRecord):
        decompress(codec, packed, LIMIT)
