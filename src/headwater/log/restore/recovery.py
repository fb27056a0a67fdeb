"""Finds records that were committed after a snapshot of the metadata was taken.

The object of a flush names the streams of its batches, but not their offsets, which the commit
assigns. Merged objects and files state offsets, and show which of these batches they have
(``placement``). All other batches are appended again, in the order in which they were written:

- Within an incarnation this order is exact, since sections are committed in the order of their
  numbers. Between incarnations it is the order of the brokers' clocks. So records of one partition
  that went through several brokers at once may come back in another order.
- From feature level 2 on, an incarnation notes the last section that it committed. Later sections
  are newer than the snapshot. An incarnation that the snapshot does not have began after it.
- Batches of idempotent producers that the snapshot has, or that were sent twice, are recognised by
  their sequence numbers and left out. All others are taken, even if earlier ones are missing or
  they are out of order. A batch that was refused cannot be told from a batch that was lost.

Not found are records that were committed inline and neither merged nor compacted, and topics,
partitions, settings and committed offsets that are newer than the snapshot.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.log.append.judge import judge
from headwater.log.formats.metadata_values import Incarnation, ProducerState, Tail
from headwater.log.formats.wal_object import ChunkInfo, find_sections
from headwater.objects.store import ObjectInfo
from headwater.wire.batches.batch import (
    HEADER,
    BatchKind,
    batch_sizes,
    next_sequence,
    trusted_batch,
)
from headwater.wire.batches.markers import Marker

WAL: Final = "wal/"
MERGED: Final = "merged-"
CRC_FIELD: Final = 4
"""The index of the CRC in a batch's header."""
SKEW_MS: Final = 10 * 60 * 1000
"""Largest assumed difference between brokers' clocks."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """The fields of a batch's header that the rules for appending need."""

    count: int
    size: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int
    crc: int | None = None
    """CRC of its bytes from the attributes on; None if they are not available."""
    kind: BatchKind = BatchKind.DATA
    marker: Marker | None = None
    """The marker of a control batch."""


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk with its batches. Positions are relative to its section."""

    info: ChunkInfo
    batches: list[FoundBatch]


@dataclass(frozen=True, slots=True)
class FoundSection:
    """A section that was committed, or at least written, after the snapshot."""

    key: str
    position: int
    created_ms: int
    chunks: list[FoundChunk]
    """The chunks that the snapshot does not have."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object that may be newer than the snapshot, from ``position`` on."""

    info: ObjectInfo
    position: int = 0
    committed: int = 0
    """Chunks of the section at ``position`` that the snapshot has."""


def incarnation_of(key: str) -> str:
    return key.split("/")[1]


def is_merged(key: str) -> bool:
    """Whether a merge wrote the object, from chunks that were already committed."""
    return key.rpartition("/")[2].startswith(MERGED)


def candidate(
    info: ObjectInfo, incarnation: Incarnation | None, *, recorded: bool
) -> Candidate | None:
    """The object as a candidate if it may have chunks newer than the snapshot, else None.

    ``recorded`` says that the snapshot has a record of the object.
    """
    if is_merged(info.key):
        return None if recorded else Candidate(info)
    if incarnation is None:
        return None if recorded else Candidate(info)
    key, position, committed = incarnation.section
    if not key:
        return None if recorded else Candidate(info)  # It noted no section.
    if info.key < key:
        return None
    return Candidate(info, position, committed) if info.key == key else Candidate(info)


def newer_sections(
    data: bytearray,
    of: Candidate,
    known: Mapping[str, Incarnation],
    taken_ms: int,
    written_ms: int,
) -> Iterator[FoundSection]:
    """The sections of an object, whose bytes are ``data``, that are newer than the snapshot.

    The snapshot was taken at ``taken_ms`` by its broker's clock, and its object written at
    ``written_ms`` by the store's.
    """
    # The object store's clock counts, too, since the clock of the writing broker may be far behind.
    old = of.info.modified_ms < written_ms - SKEW_MS
    for position, created_ms, chunks in find_sections(data, of.position):
        unknown = incarnation_of(of.info.key) not in known
        if unknown and old and created_ms < taken_ms - SKEW_MS:
            continue  # An incarnation that was fenced before the snapshot wrote the object.
        new = chunks[of.committed :] if position == of.position else chunks
        if new:
            found = [FoundChunk(info, found_batches(_chunk(data, position, info))) for info in new]
            yield FoundSection(of.info.key, position, created_ms, found)


def merged_sections(data: bytearray, key: str) -> Iterator[FoundSection]:
    """The sections of an object that a merge wrote."""
    for position, created_ms, chunks in find_sections(data):
        found = [FoundChunk(info, found_batches(_chunk(data, position, info))) for info in chunks]
        yield FoundSection(key, position, created_ms, found)


def _chunk(data: bytearray, section: int, info: ChunkInfo) -> memoryview:
    start = section + info.position
    return memoryview(data)[start : start + info.length]


def found_batches(chunk: memoryview) -> list[FoundBatch]:
    """The headers of a chunk's batches."""
    found = []
    for position, size, count in batch_sizes(chunk):
        batch = trusted_batch(chunk[position : position + size])
        found.append(
            FoundBatch(
                count,
                size,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.max_timestamp,
                HEADER.unpack_from(batch.data)[CRC_FIELD],
                batch.kind,
                batch.marker if batch.is_control else None,
            )
        )
    return found


def in_order(sections: Iterable[FoundSection]) -> Iterator[FoundSection]:
    """The sections in the order in which their batches are appended again."""
    by_incarnation: dict[str, list[FoundSection]] = {}
    for section in sections:
        by_incarnation.setdefault(incarnation_of(section.key), []).append(section)
    runs = []
    for own in by_incarnation.values():
        own.sort(key=lambda section: (section.key, section.position))
        latest = 0
        run: list[tuple[int, str, int, FoundSection]] = []
        for section in own:
            latest = max(latest, section.created_ms)  # The clock may have been set back.
            run.append((latest, section.key, section.position, section))
        runs.append(run)
    for *_, section in heapq.merge(*runs, key=lambda item: item[:3]):
        yield section


@dataclass(frozen=True, slots=True)
class Regained:
    """The batches of idempotent producers that a restored stream has."""

    known: Mapping[int, tuple[int, int]]
    """By producer, the epoch and the last sequence in the snapshot."""
    appended: set[tuple[int, int, int]] = field(default_factory=set)
    """Producer, epoch and first sequence of batches that were added since."""

    @classmethod
    def of(cls, tail: Tail) -> "Regained":
        known = {
            producer: (state.epoch, state.batches[-1][1])
            for producer, state in tail.producers.items()
            if state.batches
        }
        return cls(known)

    def add(self, batch: FoundBatch) -> None:
        """Add a batch of the restored stream."""
        if batch.producer_id >= 0:
            self.appended.add((batch.producer_id, batch.producer_epoch, batch.base_sequence))

    def has(self, batch: FoundBatch) -> bool:
        """Whether the stream already has a batch of an idempotent producer."""
        if batch.producer_id < 0:
            return False
        if (batch.producer_id, batch.producer_epoch, batch.base_sequence) in self.appended:
            return True
        epoch, last = self.known.get(batch.producer_id, (-1, 0))
        if batch.producer_epoch == epoch:
            return not _follows(last, batch)
        return batch.producer_epoch < epoch


def append_again(tail: Tail, offset: int, batch: FoundBatch, now_ms: int) -> None:
    """Add a batch at an offset to the producers' states.

    If the batch before it was lost, the producer begins anew with this one. If a later batch was
    added before, because this one went through a broker whose clock is behind, the state of the
    later batch stays.
    """
    if batch.producer_id < 0:
        return
    later = None
    state = tail.producers.get(batch.producer_id)
    if state is not None and not _is_next(state, batch):
        del tail.producers[batch.producer_id]
        later = None if _is_after(state, batch) else state
    tail.high_watermark = offset
    judge(tail, [batch], now_ms)
    if later is not None:
        tail.producers[batch.producer_id] = later


def _is_next(state: ProducerState, batch: FoundBatch) -> bool:
    if batch.producer_epoch != state.epoch or not state.batches:
        return False
    return next_sequence(state.batches[-1][1], 1) == batch.base_sequence


def _is_after(state: ProducerState, batch: FoundBatch) -> bool:
    if batch.producer_epoch != state.epoch or not state.batches:
        return batch.producer_epoch >= state.epoch
    return _follows(state.batches[-1][1], batch)


def _follows(last: int, batch: FoundBatch) -> bool:
    """Whether a batch comes after the one that ended with ``last``, directly or with a gap."""
    return (batch.base_sequence - next_sequence(last, 1)) % 2**31 < 2**30
