"""The transaction that makes a flush part of the log.

Invariants:

- Offsets are dense: a stream's new entry starts at its committed high watermark, and entry,
  tail and object record land together.
- A commit lands at most once: it carries its incarnation's next number, and running it again
  after a lost answer finds that number and returns the first run's outcome.
- A fenced incarnation commits nothing: its key is gone, and every commit compares it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import NotLeaderOrFollower
from headwater.log.append.judge import (
    MOST_PRODUCERS,
    Place,
    forget_idle_producers,
    forget_oldest_producers,
    judge,
)
from headwater.log.append.wal_files import Section
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import (
    GROWING,
    INLINE,
    WAL,
    Incarnation,
    IndexEntry,
    ObjectRecord,
    Release,
    StreamCommit,
    Tail,
)
from headwater.log.formats.wal_object import Chunk, Placement
from headwater.meta import keys
from headwater.meta.store import Decide, Limits, Values, Writes
from headwater.meta.values import decode, encode

OPERATIONS_PER_STREAM = 2
OPERATIONS_PER_COMMIT = 3
TAIL_BYTES = 64 * 1024
"""What a tail may have, which every commit to its stream reads and writes: some 500 producers that
wrote five batches or more, or 2,000 that wrote one."""


class Fenced(NotLeaderOrFollower):
    """Raised when this incarnation's key is gone: another took its place."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one transaction commits: some chunks of a flush, of an object or inline."""

    domain: int
    incarnation: str
    number: int
    chunks: Sequence[Chunk]
    placements: Sequence[Placement]
    section: Section | None
    part: int
    parts: int
    noted: int = 0
    """How many of the section's chunks are committed after this part; 0 where it is not noted."""

    @property
    def keys(self) -> list[str]:
        """What the transaction reads."""
        return [
            keys.incarnation(self.domain, self.incarnation),
            *(keys.tail(self.domain, chunk.stream) for chunk in self.chunks),
        ]


def chunks_per_part(limits: Limits) -> int | None:
    """How many streams fit one transaction; None where any number does."""
    if limits.operations is None:
        return None
    return (limits.operations - OPERATIONS_PER_COMMIT) // OPERATIONS_PER_STREAM


def commit_part(
    part: Part,
    now_ms: int,
    producer_expiration_ms: int,
    latecomers: Mapping[int, Mapping[int, Place]] | None = None,
) -> Decide[list[CommittedChunk]]:
    """The pure function of the transaction; its result says what became of every batch.

    ``latecomers`` are the batches of each stream's producers with which those without state may
    begin in the middle; None lets all.
    """

    def decide(values: Values) -> tuple[Writes, list[CommittedChunk]]:
        writes = Writes()
        own_key = keys.incarnation(part.domain, part.incarnation)
        own = values[own_key]
        if own is None:
            raise Fenced(f"broker incarnation {part.incarnation} was fenced")
        last = decode(Incarnation, own.value)
        if last.number >= part.number:
            return writes, [
                _landed_before(chunk, commit)
                for chunk, commit in zip(part.chunks, last.streams, strict=True)
            ]
        landed = [
            _commit_chunk(part, number, values, writes, now_ms, producer_expiration_ms, latecomers)
            for number in range(len(part.chunks))
        ]
        outcome = [each.commit for each in landed]
        if part.section is not None:
            _record_object(part, part.section, outcome, writes, now_ms)
        if part.parts == GROWING and part.section is not None:
            last.growing = part.section.key
        if part.noted and part.section is not None:
            last.section = (part.section.key, part.section.position, part.noted)
        last.number = part.number
        last.streams = outcome
        writes.put(own_key, encode(last))
        return writes, landed

    return decide


def _landed_before(chunk: Chunk, commit: StreamCommit) -> CommittedChunk:
    """The outcome of an earlier attempt, as the incarnation's key has it."""
    entry = None if commit.entry is None else decode(IndexEntry, commit.entry)
    return CommittedChunk(chunk, commit, entry)


def _record_object(
    part: Part, section: Section, outcome: Sequence[StreamCommit], writes: Writes, now_ms: int
) -> None:
    live = [commit.stream for commit in outcome if commit.entry is not None]
    record = ObjectRecord(size=section.size, parts=part.parts, live=live, created_ms=now_ms)
    writes.put(keys.object_record(part.domain, section.key, part.part), encode(record))
    if not live:
        # Nothing will ever refer to this part, so nothing else would release it.
        unused = Release(chunks=[(section.key, part.part, 0)], released_ms=now_ms)
        writes.put(
            f"{keys.releases(part.domain)}{part.incarnation}/{part.number:012d}", encode(unused)
        )


def _commit_chunk(
    part: Part,
    number: int,
    values: Values,
    writes: Writes,
    now_ms: int,
    producer_expiration_ms: int,
    latecomers: Mapping[int, Mapping[int, Place]] | None,
) -> CommittedChunk:
    chunk = part.chunks[number]
    tail_key = keys.tail(part.domain, chunk.stream)
    committed = values[tail_key]
    tail = decode(Tail, committed.value) if committed is not None else Tail()
    start = tail.high_watermark
    forget_idle_producers(tail, now_ms, producer_expiration_ms)
    allowed = None if latecomers is None else latecomers.get(chunk.stream, {})
    verdicts = judge(tail, chunk.batches, now_ms, allowed).verdicts
    end = tail.high_watermark
    if end == start:
        commit = StreamCommit(chunk.stream, verdicts, start, end, None, tail.last_stable)
        return CommittedChunk(chunk, commit, None)
    left_out = [number for number, _, _ in verdicts]
    skipped = set(left_out)
    entry = IndexEntry(
        start=start,
        end=end,
        kind=INLINE if part.section is None else WAL,
        length=chunk.length,
        size=tail.size,
        max_timestamp=max(
            batch.max_timestamp
            for number, batch in enumerate(chunk.batches)
            if number not in skipped
        ),
        created_ms=now_ms,
        left_out=left_out,
    )
    if part.section is not None:
        placement = part.placements[number]
        section = part.section
        entry.store = section.store
        entry.key = section.key
        entry.part = part.part
        entry.position = section.position + placement.position
        entry.blocks = (section.position + placement.blocks_position, placement.blocks)
    described = encode(entry)
    stored = described
    if part.section is None:
        entry.data = bytes(chunk.data)
        stored = encode(entry)
        entry.data = None  # who keeps the entry has the chunk too
    writes.put(keys.index_entry(part.domain, chunk.stream, end), stored)
    writes.put(tail_key, encode_bounded(tail))
    commit = StreamCommit(chunk.stream, verdicts, start, end, described, tail.last_stable)
    return CommittedChunk(chunk, commit, entry)


def encode_bounded(tail: Tail) -> bytes:
    """The tail, after it forgot the producers that are beyond its bounds."""
    forget_oldest_producers(tail, MOST_PRODUCERS)
    encoded = encode(tail)
    while len(encoded) > TAIL_BYTES:
        before = len(tail.producers)
        # A tenth more, so that not every commit forgets some.
        forget_oldest_producers(tail, before * TAIL_BYTES * 9 // (len(encoded) * 10))
        if len(tail.producers) == before:
            break
        encoded = encode(tail)
    return encoded
