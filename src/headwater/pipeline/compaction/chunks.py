"""Chunks of a stream as Arrow record batches, in bounded memory.

Chunks are read and decoded in windows of ``WINDOW`` bytes: a large chunk in several, many small
chunks in one. A decoding error is traced to the chunk that contains it.
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
"""Bytes that are read and decoded at once. A single larger batch is read completely."""

_LEADER_EPOCH: Final = 0


class DamagedChunk(HeadwaterError):
    """Raised when the content of a chunk does not match its index entry."""

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
    """The records of these entries from offset ``keep_from``, decoded by ``wire.columnar``.

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
    """Runs of complete batches of a chunk with their offsets set, without left-out batches."""
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
            raise DamagedChunk(entry, f"{len(data)} bytes follow its last complete batch")
        # A batch that is cut off at the end is read again with the next window.
        wanted = max(window, size)
        del data[at:]
        if kept := kept if left_out else data:
            yield kept
    if offset != entry.end:
        raise DamagedChunk(entry, f"its records end at offset {offset}")


def _batch_size(entry: IndexEntry, data: bytearray, at: int) -> int:
    """The size of the batch at ``at``. If its header is cut off, a size beyond the data."""
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
        raise DamagedChunk(entry, "its data is not in the index")
    return bytearray(memoryview(entry.data)[position : position + length])


def joined(runs: Iterable[bytearray], window: int) -> Iterator[bytearray]:
    """Join small neighbouring runs, up to about ``window`` bytes."""
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
    """Decode complete batches. If that fails, decode each half.

    Batches may expand too much to be decoded together. A single batch that fails is damaged.
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
    """The batch boundary nearest to the middle; 0 if there is one batch."""
    at = 0
    while at < len(buffer) // 2 or at == 0:
        at += HEADER.unpack_from(buffer, at)[1] + LENGTH_OVERHEAD
    if at >= len(buffer):
        at = 0
        while (after := at + HEADER.unpack_from(buffer, at)[1] + LENGTH_OVERHEAD) < len(buffer):
            at = after
    return at
