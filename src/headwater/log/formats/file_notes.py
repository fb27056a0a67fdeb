"""What a table's file notes of the chunks that it was made from.

A chunk of a write-ahead object does not state its offsets; its commit assigns them. If the metadata
store is lost, the note tells which chunks are in the file and at which offsets, so that a restore
does not place their records twice. The note is a text in the Parquet footer, under ``NOTES``.
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
    """A chunk whose records are in the file, and its offsets."""

    key: str
    position: int
    start: int
    end: int
    left_out: list[int]
    """Numbers of its batches without an offset."""


class FileNotes(msgspec.Struct, array_like=True, frozen=True):
    """The inputs of one file."""

    size: int
    """Bytes of the index entries that the file replaces."""
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
        raise CorruptMessage(f"cannot decode a file's note of its chunks: {error}") from error
