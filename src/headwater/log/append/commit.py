"""The transaction that makes a flush part of the log.

Invariants:

- Offsets are dense: a stream's new entry starts at its committed high watermark, and entry,
  tail and object record land together.
- A commit is applied at most once. It carries its incarnation's next number. If it runs again
  after a lost answer, it finds that number and returns the outcome of the first run.
- A fenced incarnation commits nothing: its key is deleted, and every commit compares it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.errors import NotLeaderOrFollower
from headwater.log.append.judge import (
    MAX_PRODUCERS,
    SequencePosition,
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
"""Maximum size of a tail, which every commit to its stream reads and writes. It holds about 500
producers that wrote five batches or more, or 2,000 producers that wrote one."""


class Fenced(NotLeaderOrFollower):
    """Raised when this incarnation's key was deleted: another incarnation replaced it."""


@dataclass(frozen=True, slots=True)
class CommitPart:
    """The chunks of a flush that one transaction commits."""

    domain: int
    incarnation: str
    number: int
    chunks: Sequence[Chunk]
    placements: Sequence[Placement]
    section: Section | None
    part: int
    parts: int
    noted: int = 0
    """Chunks of the section that are committed after this part; 0 if they are not noted."""

    @property
    def keys(self) -> list[str]:
        """The keys that the transaction reads."""
        return [
            keys.incarnation(self.domain, self.incarnation),
            *(keys.tail(self.domain, chunk.stream) for chunk in self.chunks),
        ]


def chunks_per_part(limits: Limits) -> int | None:
    """How many streams fit into one transaction; None if the store has no limit."""
    if limits.operations is None:
        return None
    return (limits.operations - OPERATIONS_PER_COMMIT) // OPERATIONS_PER_STREAM


def commit_part(
    part: CommitPart,
    now_ms: int,
    producer_expiration_ms: int,
    accepted_starts: Mapping[int, Mapping[int, SequencePosition]] | None = None,
) -> Decide[list[CommittedChunk]]:
    """The pure function of the transaction; its result has the verdict on every batch.

    ``accepted_starts``, by stream and producer, are the batches with which a producer without state
    may begin although their sequence is not 0. None allows any batch.
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
            _commit_chunk(
                part, number, values, writes, now_ms, producer_expiration_ms, accepted_starts
            )
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
    """The outcome of an earlier attempt, from the incarnation's key."""
    entry = None if commit.entry is None else decode(IndexEntry, commit.entry)
    return CommittedChunk(chunk, commit, entry)


def _record_object(
    part: CommitPart, section: Section, outcome: Sequence[StreamCommit], writes: Writes, now_ms: int
) -> None:
    live = [commit.stream for commit in outcome if commit.entry is not None]
    record = ObjectRecord(size=section.size, parts=part.parts, live=live, created_ms=now_ms)
    writes.put(keys.object_record(part.domain, section.key, part.part), encode(record))
    if not live:
        # No index entry will ever name this part, so nothing else would release it.
        unused = Release(chunks=[(section.key, part.part, 0)], released_ms=now_ms)
        writes.put(
            f"{keys.releases(part.domain)}{part.incarnation}/{part.number:012d}", encode(unused)
        )


def _commit_chunk(
    part: CommitPart,
    number: int,
    values: Values,
    writes: Writes,
    now_ms: int,
    producer_expiration_ms: int,
    accepted_starts: Mapping[int, Mapping[int, SequencePosition]] | None,
) -> CommittedChunk:
    chunk = part.chunks[number]
    tail_key = keys.tail(part.domain, chunk.stream)
    committed = values[tail_key]
    tail = decode(Tail, committed.value) if committed is not None else Tail()
    start = tail.high_watermark
    forget_idle_producers(tail, now_ms, producer_expiration_ms)
    allowed = None if accepted_starts is None else accepted_starts.get(chunk.stream, {})
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
        entry.data = None  # The subscribers get the chunk as well.
    writes.put(keys.index_entry(part.domain, chunk.stream, end), stored)
    writes.put(tail_key, encode_bounded(tail))
    commit = StreamCommit(chunk.stream, verdicts, start, end, described, tail.last_stable)
    return CommittedChunk(chunk, commit, entry)


def encode_bounded(tail: Tail) -> bytes:
    """The encoded tail, without the oldest producers if it exceeds its bounds."""
    forget_oldest_producers(tail, MAX_PRODUCERS)
    encoded = encode(tail)
    while len(encoded) > TAIL_BYTES:
        before = len(tail.producers)
        # A tenth more than needed, so that not every commit has to drop producers.
        forget_oldest_producers(tail, before * TAIL_BYTES * 9 // (len(encoded) * 10))
        if len(tail.producers) == before:
            break
        encoded = encode(tail)
    return encoded
