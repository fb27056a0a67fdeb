"""From an offset to its index entry to its bytes, from caches if possible.

Invariants:

- Caches may lag, never lead. Before the answer "out of range" the bounds are read from the store.
If
  an object or entry is gone, the cached entries are dropped and the look-up starts again; the
  answer is never empty or "out of range" for that reason.
- Memory is bounded by the piece cache and by the pieces that are being loaded.
"""

import asyncio
import logging
from collections.abc import Awaitable

from headwater.engine import Offsets, Read
from headwater.errors import (
    CorruptMessage,
    KafkaStorageError,
    ObjectNotFound,
    OffsetOutOfRange,
    StoreError,
    UnknownTopicOrPartition,
)
from headwater.log.formats.metadata_values import Layout, Tail
from headwater.log.read.index import IndexReader
from headwater.log.read.piece_loader import PieceLoader
from headwater.log.read.pieces import Piece
from headwater.log.read.streams import Streams, StreamState
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode

logger = logging.getLogger(__name__)

ATTEMPTS = 5
"""Attempts of a look-up whose object or entry was replaced meanwhile."""


class LogReader:
    """Reads streams for fetches."""

    def __init__(
        self, *, meta: MetadataStore, streams: Streams, index: IndexReader, loader: PieceLoader
    ) -> None:
        self._meta = meta
        self._streams = streams
        self._index = index
        self._loader = loader

    def read(
        self, stream: int, offset: int, max_bytes: int, *, committed: bool
    ) -> Read | Awaitable[Read]:
        """See ``Engine.read``."""
        state = self._streams[stream]
        if state.loaded and state.log_start <= offset <= state.high_watermark:
            end = state.last_stable if committed else state.high_watermark
            if offset >= end:
                return Read([], 0, state.offsets)
            parts, size = self._gather(stream, state, offset, end, max_bytes, None)
            if parts:
                return Read(parts, size, state.offsets)
        return self._read_from_store(stream, offset, max_bytes, committed=committed)

    def _gather(
        self,
        stream: int,
        state: StreamState,
        offset: int,
        end: int,
        max_bytes: int,
        first: Piece | None,
    ) -> tuple[list[memoryview], int]:
        """The batches in memory from ``offset`` on, beginning with the piece ``first`` if given."""
        parts: list[memoryview] = []
        size = 0
        piece = first
        while offset < end:
            if piece is None:
                entry = state.find(offset)
                piece = self._loader.cached(stream, entry, offset) if entry is not None else None
                if piece is None:
                    self._loader.read_ahead(stream, entry, offset)
                    break
            view, offset = piece.slice(offset, end, max_bytes - size, at_least_one=not parts)
            if not view:
                break
            parts.append(view)
            size += len(view)
            # Prefetch the next piece if one more answer of this size reaches the end of this one.
            if piece.bytes_from(offset) <= max_bytes and piece.end < end:
                self._loader.read_ahead(stream, state.find(piece.end), piece.end)
            piece = None
            if size >= max_bytes:
                break
        return parts, size

    async def _read_from_store(
        self, stream: int, offset: int, max_bytes: int, *, committed: bool
    ) -> Read:
        state = self._streams[stream]
        for _ in range(ATTEMPTS):
            if not (state.loaded and state.log_start <= offset <= state.high_watermark):
                await self.load_bounds(stream)
                state = self._streams[stream]  # It may have been dropped meanwhile.
                if not state.log_start <= offset <= state.high_watermark:
                    raise OffsetOutOfRange(
                        f"offset {offset} is not in [{state.log_start}, {state.high_watermark}]"
                    )
            end = state.last_stable if committed else state.high_watermark
            if offset >= end:
                return Read([], 0, state.offsets)
            try:
                entry = state.find(offset) or await self._index.look_up(stream, offset)
                if entry is not None:
                    piece = await self._loader.load(stream, entry, offset)
                    parts, size = self._gather(stream, state, offset, end, max_bytes, piece)
                    return Read(parts, size, state.offsets)
            except ObjectNotFound:
                logger.info(
                    "The object of an offset was replaced; retrying the look-up",
                    extra={"stream": stream, "offset": offset},
                )
            except (StoreError, CorruptMessage) as error:
                raise KafkaStorageError(f"cannot read offset {offset}: {error}") from error
            state.rearranged(state.log_start)
            state.loaded = False
        raise KafkaStorageError(f"no index entry holds offset {offset} of stream {stream}")

    async def load_bounds(self, stream: int) -> Offsets:
        """Read a stream's bounds from the store and remember them."""
        invalidations = self._streams.invalidations
        try:
            tail_entry, layout_entry = await asyncio.gather(
                self._meta.get(keys.tail(0, stream)), self._meta.get(keys.layout(0, stream))
            )
            tail = Tail() if tail_entry is None else decode(Tail, tail_entry.value)
            layout = Layout() if layout_entry is None else decode(Layout, layout_entry.value)
        except StoreError as error:
            raise KafkaStorageError(f"cannot read the stream's bounds: {error}") from error
        if tail.deleted:
            self._streams.drop(stream)
            raise UnknownTopicOrPartition("the topic was deleted")
        state = self._streams[stream]
        state.log_start = max(layout.log_start, state.log_start)
        # If changes were missed during the read, these bounds may lack them.
        state.loaded = invalidations == self._streams.invalidations
        # The layout may be newer than the tail; the log start is never above the end.
        state.advance(
            max(tail.high_watermark, state.log_start), max(tail.last_stable, state.log_start)
        )
        return state.offsets
