"""Pieces: runs of whole batches in memory with their offsets set, and the cache of them.

A piece never changes, so that views of it may be sent to sockets while the cache drops it.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import CorruptMessage
from headwater.telemetry.metrics import Counter
from headwater.wire.batches.batch import HEADER, batch_sizes, set_base_offset

LAST_DELTA = 6
"""The header field that holds ``lastOffsetDelta``."""

PieceKey = tuple[int, int, int, str, int]
"""(stream, entry's start, end and object, number of the piece within the entry)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches of ``[start, end)``: number i begins at ``positions[i]``, ends before ``ends[i]``."""

    start: int
    end: int
    data: memoryview
    positions: list[int]
    ends: list[int]

    def slice(
        self, offset: int, before: int, max_bytes: int, *, at_least_one: bool
    ) -> tuple[memoryview, int]:
        """Whole batches from the one that holds ``offset``, up to ``max_bytes``, and their end.

        No batch reaches above ``before``: a merged piece may have records that the reader may not
        see yet. The view is empty if the first batch is too large, unless ``at_least_one``.
        """
        first = bisect_right(self.ends, offset)
        begin = self.positions[first]
        after = len(self.positions)
        if len(self.data) - begin > max_bytes:
            after = bisect_right(self.positions, begin + max_bytes) - 1
        if before < self.end:
            after = min(after, bisect_right(self.ends, before))
        if after <= first:
            if not at_least_one:
                return self.data[:0], offset
            after = first + 1
        stop = self.positions[after] if after < len(self.positions) else len(self.data)
        return self.data[begin:stop], self.ends[after - 1]

    def bytes_from(self, offset: int) -> int:
        """The bytes of the batches from the one that holds ``offset`` on."""
        first = bisect_right(self.ends, offset)
        return len(self.data) - self.positions[first] if first < len(self.ends) else 0


def make_piece(
    chunk: bytearray,
    start: int,
    end: int,
    *,
    leader_epoch: int,
    left_out: Sequence[int] = (),
) -> Piece:
    """Set the offsets of a chunk's batches in place, dropping those left out.

    The piece takes over the buffer. Raises ``CorruptMessage`` if the batches do not cover
    ``[start, end)``.
    """
    if left_out:
        chunk = _without(chunk, frozenset(left_out))
    positions: list[int] = []
    ends: list[int] = []
    offset = start
    for position, _size, count in batch_sizes(chunk):
        set_base_offset(chunk, position, offset, leader_epoch)
        offset += count
        positions.append(position)
        ends.append(offset)
    if offset != end:
        raise CorruptMessage(f"a chunk of offsets {start} to {end} holds records up to {offset}")
    return Piece(start, end, memoryview(chunk).toreadonly(), positions, ends)


def make_spanning_piece(
    batches: Sequence[memoryview | bytes], start: int, end: int, leader_epoch: int
) -> Piece:
    """A piece of batches whose headers have the offsets that they span, including gaps.

    Raises ``CorruptMessage`` if they do not cover ``[start, end)``.
    """
    data = bytearray().join(batches)
    positions: list[int] = []
    ends: list[int] = []
    offset = start
    position = 0
    for batch in batches:
        fields = HEADER.unpack_from(batch)
        if fields[0] != offset:
            raise CorruptMessage(f"a batch at offset {fields[0]} where {offset} is next")
        set_base_offset(data, position, offset, leader_epoch)
        offset += fields[LAST_DELTA] + 1
        positions.append(position)
        ends.append(offset)
        position += len(batch)
    if offset != end:
        raise CorruptMessage(f"batches of offsets {start} to {end} span up to {offset}")
    return Piece(start, end, memoryview(data).toreadonly(), positions, ends)


def _without(chunk: bytearray, left_out: frozenset[int]) -> bytearray:
    view = memoryview(chunk)
    return bytearray().join(
        view[position : position + size]
        for number, (position, size, _) in enumerate(batch_sizes(chunk))
        if number not in left_out
    )


class PieceCache:
    """Recently written and read pieces; the least recently used are dropped first."""

    def __init__(self, max_bytes: int, hits: Counter, misses: Counter) -> None:
        self._max_bytes = max_bytes
        self._pieces: OrderedDict[PieceKey, Piece] = OrderedDict()
        self._size = 0
        self._hits = hits
        self._misses = misses

    @property
    def size(self) -> int:
        return self._size

    def get(self, key: PieceKey) -> Piece | None:
        piece = self._pieces.get(key)
        if piece is None:
            self._misses.inc()
            return None
        self._hits.inc()
        self._pieces.move_to_end(key)
        return piece

    def peek(self, key: PieceKey) -> Piece | None:
        """The cached piece, without counting this as a use."""
        return self._pieces.get(key)

    def __contains__(self, key: PieceKey) -> bool:
        return key in self._pieces

    def put(self, key: PieceKey, piece: Piece) -> None:
        if (old := self._pieces.pop(key, None)) is not None:
            self._size -= len(old.data)
        self._pieces[key] = piece
        self._size += len(piece.data)
        while self._size > self._max_bytes and len(self._pieces) > 1:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Drop the least recently used piece."""
        _, dropped = self._pieces.popitem(last=False)
        self._size -= len(dropped.data)
