"""Batches for offsets without records.

A consumer that fetches an offset in a gap needs a batch that spans the gap. A data batch without
records makes librdkafka grow its fetches until it fails, and without any batch a consumer that
reads to the end hangs. Every client skips control batches. A COMMIT marker without a producer has
no effect on ``read_committed`` consumers either.
"""

from collections.abc import Sequence
from typing import Final

from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.pieces import Piece, make_spanning_piece
from headwater.log.read.sources import Extent, whole
from headwater.wire.batches.batch import CONTROL, TRANSACTIONAL
from headwater.wire.batches.markers import Marker, MarkerType
from headwater.wire.batches.record_walk import NO_TIMESTAMP
from headwater.wire.batches.records import Record, encode_batch

MAX_SPAN: Final = 2**31
"""``lastOffsetDelta`` has 31 bits."""

_COMMIT: Final = Marker(MarkerType.COMMIT, coordinator_epoch=0)


def filler_batches(start: int, end: int) -> list[bytes]:
    """Control batches that together span ``[start, end)``: one, unless that is huge."""
    return [
        encode_batch(
            [Record(min(first + MAX_SPAN, end) - 1, NO_TIMESTAMP, _COMMIT.key, _COMMIT.value)],
            base_offset=first,
            attributes=TRANSACTIONAL | CONTROL,
        )
        for first in range(start, end, MAX_SPAN)
    ]


class HoleSource:
    """See ``sources.PieceSource``: fillers for lost records."""

    def __init__(self, *, leader_epoch: int) -> None:
        self._leader_epoch = leader_epoch

    def is_large(self, _entry: IndexEntry) -> bool:
        return False

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        return [whole(entry)]

    async def piece(self, _stream: int, entry: IndexEntry, _extent: Extent | None) -> Piece:
        batches = filler_batches(entry.start, entry.end)
        return make_spanning_piece(batches, entry.start, entry.end, self._leader_epoch)
