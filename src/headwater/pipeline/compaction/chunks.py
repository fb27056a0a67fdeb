"""Chunks of a stream as Arrow record batches, in bounded memory.

Chunks are read in windows, whatever their size, and decoded some megabytes at a time, whatever
the number of chunks in them. What does not decode is narrowed down to the chunk that holds it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from headwater.errors import CorruptMessage, HeadwaterError, InvalidRecord
from headwater.log.formats.metadata_values import INLINE, IndexEntry
from headwater.pipeline.object_reads import ObjectReads
from headwater.wire.batches.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, set_base_offset
from headwater.wire.columnar import decode

WINDOW: Final = 8 * 2**20
"""What is read and decoded at once; a single larger batch is taken whole."""

_LEADER_EPOCH: Final = 0


class DamagedChunk(HeadwaterError):
    """Raised when a chunk does not hold what its index entry says."""

    def __init__(self, entry: IndexEntry, reason: str) -> None:
        super().__init__(f"[{entry.start}, {entry.end}): {reason}")
        self.entry = entry
        self.reason = reason


def record_batches(
    entries: Sequence[IndexEntry],
    reads: ObjectReads,
    *,
    partition: int,
    keep_from: int = 0,
    window: int = WINDOW,
) -> Iterator[Any]:
    """The records of these entries from offset ``keep_from`` on, as ``wire.columnar`` has them.

    Raises ``DamagedChunk``, and what ``reads`` raises.
    """
    starts = [entry.start for entry in entries]
    reads.expect(
        (entry.key, entry.position, min(window, entry.length))
        for entry in entries
        if entry.kind != INLINE
    )
    runs = (run for entry in entries for run in kept_batches(entry, reads, window))
    for buffer in joined(runs, window):
        try:
            batches = list(decode_all(buffer, partition))
        except _Undecodable as error:
            entry = entries[bisect_right(starts, error.offset) - 1]
            raise DamagedChunk(entry, str(error.__cause__)) from error
        for batch in batches:
            below = int(np.searchsorted(batch.column("offset").to_numpy(), keep_from))
            if below < batch.num_rows:
                yield batch.slice(below) if below else batch


def kept_batches(entry: IndexEntry, reads: ObjectReads, window: int) -> Iterator[bytearray]:
    """Runs of whole batches of a chunk, their offsets set, without those that are left out."""
    left_out = frozenset(entry.left_out)
    number, offset, position = 0, entry.start, 0
    wanted = window
    while position < entry.length:
        data = _read(entry, reads, position, min(wanted, entry.length - position))
        kept, at = bytearray(), 0
        while (size := _batch_size(entry, data, at)) <= len(data) - at:
            if number not in left_out:
                set_base_offset(data, at, offset, _LEADER_EPOCH)
                offset += HEADER.unpack_from(data, at)[12]
                if left_out:
                    kept += memoryview(data)[at : at + size]
            number += 1
            at += size
        position += at
        if at == 0 and len(data) == entry.length - position:
            raise DamagedChunk(entry, f"{len(data)} bytes are left behind its last whole batch")
        # The cut batch at the end is read again with the next window, which is large enough.
        wanted = max(window, size)
        del data[at:]
        if kept := kept if left_out else data:
            yield kept
    if offset != entry.end:
        raise DamagedChunk(entry, f"its records end at offset {offset}")


def _batch_size(entry: IndexEntry, data: bytearray, at: int) -> int:
    """How long the batch at ``at`` is; more than there is where its header is cut."""
    if len(data) - at < HEADER_SIZE:
        return HEADER_SIZE
    size: int = HEADER.unpack_from(data, at)[1] + LENGTH_OVERHEAD
    if not HEADER_SIZE <= size <= entry.length:
        raise DamagedChunk(entry, f"a batch of {size} bytes in a chunk of {entry.length}")
    return size


def _read(entry: IndexEntry, reads: ObjectReads, position: int, length: int) -> bytearray:
    if entry.kind != INLINE:
        return reads.read(entry.key, entry.position + position, length)
    if entry.data is None or len(entry.data) != entry.length:
        raise DamagedChunk(entry, "its bytes are not in the index")
    return bytearray(memoryview(entry.data)[position : position + length])


def joined(runs: Iterable[bytearray], window: int) -> Iterator[bytearray]:
    """Neighbouring small runs as one, up to about ``window`` bytes."""
    pending: list[bytearray] = []
    size = 0
    for run in runs:
        if pending and size + len(run) > window:
            yield pending[0] if len(pending) == 1 else bytearray().join(pending)
            pending, size = [], 0
        pending.append(run)
        size += len(run)
    if pending:
        yield pending[0] if len(pending) == 1 else bytearray().join(pending)


class _Undecodable(Exception):
    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def decode_all(buffer: bytearray | memoryview, partition: int) -> Iterator[Any]:
    """Decode whole batches; in halves where they do not decode at once.

    Batches that expand far are too much for one call together; one that fails alone is damaged.
    """
    try:
        yield decode(buffer, partition)
    except (CorruptMessage, InvalidRecord) as error:
        middle = _middle(buffer)
        if middle == 0:
            raise _Undecodable(HEADER.unpack_from(buffer)[0]) from error
        view = memoryview(buffer)
        yield from decode_all(view[:middle], partition)
        yield from decode_all(view[middle:], partition)


def _middle(buffer: bytearray | memoryview) -> int:
    """The batch boundary nearest above the half; 0 where there is one batch."""
    at = 0
    while at < len(buffer) // 2 or at == 0:
        at += HEADER.unpack_from(buffer, at)[1] + LENGTH_OVERHEAD
    if at >= len(buffer):
        at = 0
        while (after := at + HEADER.unpack_from(buffer, at)[1] + LENGTH_OVERHEAD) < len(buffer):
            at = after
    return at
