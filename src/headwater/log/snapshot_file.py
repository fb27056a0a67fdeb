"""Snapshots of the metadata store (``.hwms``): every lasting key at one revision.
::

    header   magic "HWMS" | version u16 | flags u16 | description length u32
    description   JSON: which cluster, at which revision and epoch, when, how many entries
    entries  zstd of a msgpack list of (key, value)
    footer   CRC32C of all before it u32 | magic "SMWH"

The description can be read without the entries, by people too. Header and footer are the same in
every version.
"""

import struct
from collections.abc import Sequence

import cramjam
import msgspec
from crc32c import crc32c

from headwater.errors import CorruptMessage, UnknownFormat

MAGIC = b"HWMS"
FOOTER_MAGIC = b"SMWH"
VERSION = 1
HEADER = struct.Struct(">4sHHI")
FOOTER = struct.Struct(">I4s")

Item = tuple[str, bytes]

_entries_decoder = msgspec.msgpack.Decoder(list[Item])


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot is of; ``entries`` counts keys, ``bytes`` those of keys and values."""

    cluster: str
    epoch: int
    level: int
    revision: int
    taken_ms: int
    entries: int
    bytes: int
    incarnation: str
    """Who took it."""


def encode_snapshot(description: Description, items: Sequence[Item]) -> list[bytes]:
    """The object's parts."""
    told = msgspec.json.encode(description)
    parts = [
        HEADER.pack(MAGIC, VERSION, 0, len(told)),
        told,
        bytes(cramjam.zstd.compress(msgspec.msgpack.encode(items))),
    ]
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    return [*parts, FOOTER.pack(checksum, FOOTER_MAGIC)]


def decode_snapshot(data: bytes | bytearray) -> tuple[Description, list[Item]]:
    """Raises ``CorruptMessage`` where a byte is wrong, ``UnknownFormat`` for a newer version."""
    if len(data) < HEADER.size + FOOTER.size:
        raise CorruptMessage(f"{len(data)} bytes are too few for a snapshot")
    magic, version, _flags, length = HEADER.unpack_from(data)
    checksum, footer_magic = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    if magic != MAGIC or footer_magic != FOOTER_MAGIC:
        raise CorruptMessage("not a snapshot: its magic is wrong")
    view = memoryview(data)
    if crc32c(view[: -FOOTER.size]) != checksum:
        raise CorruptMessage("a snapshot's checksum does not match its bytes")
    if version != VERSION:
        raise UnknownFormat(f"a snapshot of version {version}; this release knows {VERSION}")
    told = view[HEADER.size : HEADER.size + length]
    packed = view[HEADER.size + length : -FOOTER.size]
    items = _entries_decoder.decode(bytes(cramjam.zstd.decompress(packed)))
    return msgspec.json.decode(told, type=Description), items
