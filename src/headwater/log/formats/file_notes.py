"""What a table's file says of the chunks that it was made from.

A WAL chunk does not state its offsets; they are given by its commit. If the metadata store is
lost, a chunk that a file names as its input is known to be in the file, at the noted offsets. So a
restore places its records once. The note is a text in the file's Parquet footer, under ``NOTES``.
"""

import base64
from collections.abc import Sequence
from typing import Final

import cramjam
import msgspec

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import WAL, IndexEntry

NOTES: Final = "headwater.chunks"


class ChunkNote(msgspec.Struct, array_like=True, frozen=True):
    """A chunk of a WAL object that a file holds, and its offsets."""

    key: str
    position: int
    start: int
    end: int
    left_out: list[int]
    """Its batches, by number, that have no offset."""


class FileNotes(msgspec.Struct, array_like=True, frozen=True):
    """The inputs of one file."""

    size: int
    """Bytes of the entries that it replaces."""
    chunks: list[ChunkNote]


_decoder = msgspec.msgpack.Decoder(FileNotes)


def encode_notes(entries: Sequence[IndexEntry]) -> str:
    """The note of a file that is made from these entries."""
    notes = FileNotes(
        sum(entry.length for entry in entries),
        [
            ChunkNote(entry.key, entry.position, entry.start, entry.end, entry.left_out)
            for entry in entries
            if entry.kind == WAL
        ],
    )
    packed = bytes(cramjam.zstd.compress(msgspec.msgpack.encode(notes)))
    return base64.b64encode(packed).decode()


def decode_notes(text: bytes) -> FileNotes:
    """Raises ``CorruptMessage`` if the text is no note."""
    try:
        return _decoder.decode(bytes(cramjam.zstd.decompress(base64.b64decode(text))))
    except (ValueError, cramjam.DecompressionError) as error:
        raise CorruptMessage(f"a file's note of its chunks: {error}") from error
