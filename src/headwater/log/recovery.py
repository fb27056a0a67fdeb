"""Finding records that were committed after a snapshot of the metadata was taken.

A WAL object says which streams' batches it holds, and nothing of their offsets: those are given by
the commit. So what came after a snapshot is appended again, in the order in which it was written:

- Within an incarnation that order is exact: sections were committed as they were numbered. Between
  incarnations it is that of the brokers' clocks, so records of one partition that went through
  several brokers at once may come back in another order.
- An incarnation that the snapshot knows notes the last section that it had committed by then (from
  feature level 2 on): what follows it is newer. One that the snapshot does not know began after it.
- Batches of idempotent producers are judged by their sequence numbers as ever, so those that the
  snapshot has, and those that were sent twice, stay out. Where a batch before them is lost, the
  others are taken all the same.

What cannot be found: records that travelled inside metadata transactions, and topics, partitions,
settings and committed offsets that are newer than the snapshot.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from headwater.log.formats import Incarnation, Tail
from headwater.log.judge import judge
from headwater.log.wal_object import ChunkInfo, find_sections
from headwater.objects.store import ObjectInfo
from headwater.wire.batch import batch_sizes, next_sequence, trusted_batch

WAL: Final = "wal/"
SKEW_MS: Final = 10 * 60 * 1000
"""How far brokers' clocks may be apart."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A batch's header, as far as its judgement needs it."""

    count: int
    size: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class FoundChunk:
    """A chunk, its positions being in its section, and its batches."""

    info: ChunkInfo
    batches: list[FoundBatch]


@dataclass(frozen=True, slots=True)
class FoundSection:
    """A section that was committed, or at least written, after the snapshot."""

    key: str
    position: int
    created_ms: int
    chunks: list[FoundChunk]
    """Those that the snapshot does not have."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object of which a part may be newer than the snapshot, and from where on."""

    info: ObjectInfo
    position: int = 0
    committed: int = 0
    """How many chunks of the section at ``position`` the snapshot has."""


def incarnation_of(key: str) -> str:
    return key.split("/")[1]


def candidate(
    info: ObjectInfo, incarnation: Incarnation | None, *, recorded: bool
) -> Candidate | None:
    """Whether an object holds something newer than what the snapshot says of its incarnation.

    ``recorded`` says that the snapshot has a record of the object.
    """
    if info.key.rpartition("/")[2].startswith("merged-"):
        return None  # it holds what others hold, whose objects are still there
    if incarnation is None:
        return None if recorded else Candidate(info)
    key, position, committed = incarnation.section
    if not key:
        return None if recorded else Candidate(info)  # it noted nothing, or has nothing to note
    if info.key < key:
        return None
    return Candidate(info, position, committed) if info.key == key else Candidate(info)


def newer_sections(
    data: bytearray, of: Candidate, known: Mapping[str, Incarnation], taken_ms: int
) -> Iterator[FoundSection]:
    """The sections of an object, whose bytes are ``data``, that are newer than the snapshot."""
    for position, created_ms, chunks in find_sections(data, of.position):
        if incarnation_of(of.info.key) not in known and created_ms < taken_ms - SKEW_MS:
            continue  # left behind by an incarnation that was fenced before the snapshot
        new = chunks[of.committed :] if position == of.position else chunks
        if new:
            found = [FoundChunk(info, _batches(data, position, info)) for info in new]
            yield FoundSection(of.info.key, position, created_ms, found)


def _batches(data: bytearray, section: int, info: ChunkInfo) -> list[FoundBatch]:
    start = section + info.position
    chunk = memoryview(data)[start : start + info.length]
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
            )
        )
    return found


def in_order(sections: Iterable[FoundSection]) -> Iterator[FoundSection]:
    """All sections in the order in which they are appended again."""
    by_incarnation: dict[str, list[FoundSection]] = {}
    for section in sections:
        by_incarnation.setdefault(incarnation_of(section.key), []).append(section)
    runs = []
    for own in by_incarnation.values():
        own.sort(key=lambda section: (section.key, section.position))
        latest = 0
        run: list[tuple[int, str, int, FoundSection]] = []
        for section in own:
            latest = max(latest, section.created_ms)  # a clock that was set back changes nothing
            run.append((latest, section.key, section.position, section))
        runs.append(run)
    for *_, section in heapq.merge(*runs, key=lambda item: item[:3]):
        yield section


def append_again(tail: Tail, batches: Iterable[FoundBatch], now_ms: int) -> list[int]:
    """Append batches to ``tail``; returns the numbers of those that are there already.

    A producer whose batch before this one was lost begins anew with it.
    """
    left_out: list[int] = []
    for number, batch in enumerate(batches):
        if batch.producer_id >= 0:
            _forgive_gap(tail, batch)
        if judge(tail, [batch], now_ms):
            left_out.append(number)
    return left_out


def _forgive_gap(tail: Tail, batch: FoundBatch) -> None:
    state = tail.producers.get(batch.producer_id)
    if state is None or not state.batches or batch.producer_epoch < state.epoch:
        return
    if batch.producer_epoch > state.epoch:
        del tail.producers[batch.producer_id]
        return
    ahead = (batch.base_sequence - next_sequence(state.batches[-1][1], 1)) % 2**31
    if 0 < ahead < 2**30:
        del tail.producers[batch.producer_id]
