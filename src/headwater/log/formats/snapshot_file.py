"""Snapshots of the metadata store (``.hwms``): every lasting key at one revision.
::

    header   magic "HWMS" | version u16 | flags u16 | description length u32
    description   JSON: which cluster, at which revision and epoch, when, how many entries
    entries  zstd of a msgpack list of (key, value)
    footer   CRC32C of all before it u32 | magic "SMWH"

The description is readable without the entries. Header and footer are the same in every version.

A large store is written in parts, so that it is never in memory as a whole. Parts are objects of
the same layout without a description, written before the ``.hwms`` file. That file has the number
of parts and the last entries. Version 1 had no parts.
"""

import struct
from collections.abc import Sequence

import cramjam
import msgspec
from crc32c import crc32c

from headwater.errors import CorruptMessage, UnknownFormat

MAGIC = b"HWMS"
FOOTER_MAGIC = b"SMWH"
VERSION = 2
HEADER = struct.Struct(">4sHHI")
SUFFIX = ".hwms"
FOOTER = struct.Struct(">I4s")

Item = tuple[str, bytes]

_entries_decoder = msgspec.msgpack.Decoder(list[Item])


class SnapshotDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot contains: ``entries`` keys, with ``bytes`` of keys and values."""

    cluster: str
    epoch: int
    level: int
    revision: int
    taken_ms: int
    entries: int
    bytes: int
    incarnation: str
    """The incarnation that took it."""
    parts: int = 0
    """Number of part objects, whose entries come before those of the file itself."""


def part_key(key: str, number: int) -> str:
    """The object of a snapshot's part; the snapshot's own key sorts before it.

    >>> part_key("snapshots/0000000001/000000000000042-x.hwms", 3)
    'snapshots/0000000001/000000000000042-x/000003'
    """
    return f"{key.removesuffix(SUFFIX)}/{number:06d}"


def snapshot_of(key: str) -> str:
    """The snapshot that an object belongs to: itself, or the one that it is a part of."""
    return key if key.endswith(SUFFIX) else f"{key.rpartition('/')[0]}{SUFFIX}"


def encode_snapshot(description: SnapshotDescription, items: Sequence[Item]) -> list[bytes]:
    """The object's buffers."""
    return _encode(msgspec.json.encode(description), items)


def encode_part(items: Sequence[Item]) -> list[bytes]:
    """The buffers of a part's object."""
    return _encode(b"", items)


def _encode(told: bytes, items: Sequence[Item]) -> list[bytes]:
    parts = [
        HEADER.pack(MAGIC, VERSION, 0, len(told)),
        told,
        bytes(cramjam.zstd.compress(msgspec.msgpack.encode(items))),
    ]
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    return [*parts, FOOTER.pack(checksum, FOOTER_MAGIC)]


def decode_snapshot(data: bytes | bytearray) -> tuple[SnapshotDescription, list[Item]]:
    """The description, and the file's own entries.

    Raises ``CorruptMessage`` if a byte is wrong, ``UnknownFormat`` for a newer version.
    """
    told, items = _decode(data)
    return msgspec.json.decode(told, type=SnapshotDescription), items


def decode_part(data: bytes | bytearray) -> list[Item]:
    """A part's entries; raises as ``decode_snapshot`` does."""
    return _decode(data)[1]


def _decode(data: bytes | bytearray) -> tuple[memoryview, list[Item]]:
    if len(data) < HEADER.size + FOOTER.size:
        raise CorruptMessage(f"{len(data)} bytes are too few for a snapshot")
    magic, version, _flags, length = HEADER.unpack_from(data)
    checksum, footer_magic = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    if magic != MAGIC or footer_magic != FOOTER_MAGIC:
        raise CorruptMessage("not a snapshot: its magic is wrong")
    view = memoryview(data)
    if crc32c(view[: -FOOTER.size]) != checksum:
        raise CorruptMessage("a snapshot's checksum does not match its bytes")
    if version > VERSION:
        raise UnknownFormat(f"a snapshot of version {version}; this release knows {VERSION}")
    told = view[HEADER.size : HEADER.size + length]
    packed = view[HEADER.size + length : -FOOTER.size]
    return told, _entries_decoder.decode(bytes(cramjam.zstd.decompress(packed)))
