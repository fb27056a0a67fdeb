"""ListOffsets by time: index entries by their largest timestamp, then pieces, then records.

Records are searched off the event loop, within the limits of ``RecordWork``. A compressed batch is
decompressed only up to the wanted record.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from headwater.engine import TimestampedOffset
from headwater.errors import CorruptMessage, KafkaStorageError, ObjectNotFound, StoreError
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.index import IndexReader
from headwater.log.read.piece_loader import PieceLoader
from headwater.log.read.pieces import Piece
from headwater.log.read.reader import ATTEMPTS, LogReader
from headwater.log.record_work import RecordWork
from headwater.wire.batches.batch import HEADER
from headwater.wire.batches.record_walk import Sought
from headwater.wire.batches.records import MAX_DECOMPRESSED, search_batch

MAX_TIMESTAMP = 8
"""The header field that holds a batch's largest timestamp."""
_LATER_THAN_ALL = 2**63 - 1


class TimestampLookup:
    """Finds records by their timestamps, exact to the record."""

    def __init__(
        self, reader: LogReader, index: IndexReader, loader: PieceLoader, work: RecordWork
    ) -> None:
        self._reader = reader
        self._index = index
        self._loader = loader
        self._work = work

    async def first_at_or_after(self, stream: int, timestamp: int) -> TimestampedOffset | None:
        """The first record in offset order with that timestamp or a later one."""
        return await self._repeat(stream, lambda: self._first_at_or_after(stream, timestamp))

    async def _repeat(
        self, stream: int, look_up: Callable[[], Awaitable[TimestampedOffset | None]]
    ) -> TimestampedOffset | None:
        for _ in range(ATTEMPTS):
            try:
                return await look_up()
            except ObjectNotFound:
                continue  # The index changed during the look-up.
            except (StoreError, CorruptMessage) as error:
                raise KafkaStorageError(f"cannot look a timestamp up: {error}") from error
        raise KafkaStorageError(f"the index of stream {stream} changes too fast: try again")

    async def _first_at_or_after(self, stream: int, timestamp: int) -> TimestampedOffset | None:
        bounds = await self._reader.load_bounds(stream)
        async for entry in self._index.entries(stream, bounds.log_start):
            if entry.max_timestamp < timestamp:
                continue
            async for piece in self._pieces(stream, entry, timestamp):
                for batch, base_offset, largest in _batches(piece):
                    if largest < timestamp:
                        continue
                    least = max(0, bounds.log_start - base_offset)
                    found = await self._search(batch, timestamp, least)
                    if found.delta >= 0:
                        return TimestampedOffset(base_offset + found.delta, found.timestamp)
        return None

    async def largest(self, stream: int) -> TimestampedOffset | None:
        """The first record that has the stream's largest timestamp."""
        return await self._repeat(stream, lambda: self._largest(stream))

    async def _largest(self, stream: int) -> TimestampedOffset | None:
        log_start = (await self._reader.load_bounds(stream)).log_start
        largest = -1
        cut: IndexEntry | None = None
        async for entry in self._index.entries(stream, log_start):
            if entry.start >= log_start:
                largest = max(largest, entry.max_timestamp)
            else:
                cut = entry
        if cut is not None and cut.max_timestamp > largest:
            # Its record with the largest timestamp may be below the log start.
            async for piece in self._pieces(stream, cut, largest + 1):
                for batch, base_offset, latest in _batches(piece):
                    if latest > largest:
                        least = max(0, log_start - base_offset)
                        found = await self._search(batch, _LATER_THAN_ALL, least)
                        largest = max(largest, found.largest)
        return await self._first_at_or_after(stream, largest) if largest >= 0 else None

    async def _search(self, batch: memoryview, timestamp: int, least: int) -> Sought:
        job = partial(search_batch, batch, timestamp, least, self._work.search)
        return await self._work.run(job, len(batch), MAX_DECOMPRESSED, copies=2)

    async def _pieces(self, stream: int, entry: IndexEntry, timestamp: int) -> AsyncIterator[Piece]:
        for extent in await self._loader.extents(stream, entry):
            if extent.max_timestamp >= timestamp:
                yield await self._loader.load(stream, entry, extent.start)


def _batches(piece: Piece) -> list[tuple[memoryview, int, int]]:
    """Each batch's bytes, base offset and largest timestamp."""
    stops = [*piece.positions[1:], len(piece.data)]
    found = []
    for position, stop in zip(piece.positions, stops, strict=True):
        fields = HEADER.unpack_from(piece.data, position)
        found.append((piece.data[position:stop], fields[0], fields[MAX_TIMESTAMP]))
    return found
