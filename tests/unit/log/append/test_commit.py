"""The transaction of a flush: its size, its repetition and what it leaves behind."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import OutOfOrderSequence, UnknownTopicOrPartition
from headwater.log.append.commit import TAIL_BYTES, CommitPart, Fenced, chunks_per_part, commit_part
from headwater.log.append.judge import DUPLICATE, MAX_PRODUCERS, REMEMBERED_BATCHES
from headwater.log.append.wal_files import Section
from headwater.log.formats.metadata_values import (
    INLINE,
    WAL,
    Incarnation,
    IndexEntry,
    ObjectRecord,
    Release,
    StreamCommit,
    Tail,
)
from headwater.log.formats.wal_object import Placement, join_batches
from headwater.meta import keys
from headwater.meta.store import Entry, Limits, Writes
from headwater.meta.values import decode, encode
from headwater.wire.batches.batch import Batch
from tests.support.log.harness import make_batch

OWN = keys.incarnation(0, "a")
FILE = Section("s", "wal/a/1.wo", 0, 1234, grows=False, part_numbers=iter(()))


class CommittedValues:
    """The committed values, as a store would keep them."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {OWN: encode(Incarnation(broker=1))}

    def commit(self, part: CommitPart, now_ms: int = 50) -> tuple[Writes, list[StreamCommit]]:
        read = {
            key: Entry(key, self.values[key], 1) if key in self.values else None
            for key in part.keys
        }
        writes, landed = commit_part(part, now_ms, 1_000)(read)
        self.values.update(writes.puts)
        for each, chunk in zip(landed, part.chunks, strict=True):
            described = each.commit.entry
            assert each.entry == (None if described is None else decode(IndexEntry, described))
            assert each.chunk is chunk
        return writes, [each.commit for each in landed]

    def tail(self, stream: int) -> Tail:
        return decode(Tail, self.values[keys.tail(0, stream)])

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.values if key.startswith(prefix))


def part_of(
    batches: dict[int, Sequence[Batch]], number: int = 1, section: Section | None = FILE
) -> CommitPart:
    chunks = [join_batches(stream, list(some)) for stream, some in sorted(batches.items())]
    placements = [Placement(100 + n, 10 + n, 1) for n in range(len(chunks))]
    return CommitPart(0, "a", number, chunks, placements, section, 0, 1)


def sent(sequence: int, producer: int = 7, count: int = 1) -> Batch:
    return make_batch(count=count, producer_id=producer, epoch=0, sequence=sequence)


@given(st.integers(5, 130), st.booleans(), st.booleans())
def test_a_part_never_exceeds_the_stores_limit(limit: int, inline: bool, refused: bool) -> None:
    step = chunks_per_part(Limits(operations=limit))
    assert step is not None
    assert step >= 1
    table = CommittedValues()
    streams = range(1, step + 1)
    if refused:
        for stream in streams:
            table.values[keys.tail(0, stream)] = encode(Tail(deleted=True))
    part = part_of({n: [make_batch()] for n in streams}, section=None if inline else FILE)
    writes, _ = table.commit(part)
    assert len(writes.puts) + len(writes.deletes) + len(writes.range_deletes) <= limit
    assert len(part.keys) <= limit


def test_a_store_without_limits_commits_everything_at_once() -> None:
    assert chunks_per_part(Limits()) is None


def test_entries_start_at_the_high_watermark_and_tails_follow() -> None:
    table = CommittedValues()
    first = make_batch(b"abc", count=3, timestamp=9)
    table.commit(part_of({1: [first], 2: [make_batch(count=2)]}))
    later = [make_batch(count=2, timestamp=5), make_batch(timestamp=4)]
    _, outcome = table.commit(part_of({1: later}, 2))
    assert [(one.stream, one.start, one.end) for one in outcome] == [(1, 3, 6)]
    size = first.size + sum(batch.size for batch in later)
    assert (table.tail(1).high_watermark, table.tail(1).size) == (6, size)
    assert table.keys(keys.index(0, 1)) == [
        keys.index_entry(0, 1, 3),
        keys.index_entry(0, 1, 6),
    ]
    entry = decode(IndexEntry, table.values[keys.index_entry(0, 1, 6)])
    assert (entry.start, entry.end, entry.kind, entry.max_timestamp) == (3, 6, WAL, 5)
    assert (entry.size, entry.position, entry.blocks) == (size, 100, (10, 1))
    assert table.keys(keys.index(0, 2)) == [keys.index_entry(0, 2, 2)]


def test_inline_bytes_stand_in_the_index_and_not_in_what_watchers_follow() -> None:
    table = CommittedValues()
    part = part_of({1: [make_batch(b"abc")]}, section=None)
    _, (commit,) = table.commit(part)
    stored = decode(IndexEntry, table.values[keys.index_entry(0, 1, 1)])
    assert (stored.kind, stored.data) == (INLINE, bytes(part.chunks[0].data))
    assert commit.entry is not None
    told = decode(IndexEntry, commit.entry)
    assert told.data is None
    stored.data = None
    assert told == stored
    assert not table.keys(keys.objects(0))


@pytest.mark.parametrize("file", [FILE, None])
def test_a_repeated_commit_returns_the_first_outcome_and_writes_nothing(
    file: Section | None,
) -> None:
    table = CommittedValues()
    part = part_of({1: [sent(0), sent(0), sent(5)], 2: [make_batch()]}, section=file)
    _, first = table.commit(part)
    before = dict(table.values)
    writes, again = table.commit(part, now_ms=60)
    assert again == first
    assert not writes
    assert table.values == before
    assert first[0].verdicts == [(1, DUPLICATE, 0), (2, OutOfOrderSequence.code, 1)]


def test_a_fenced_incarnation_commits_nothing() -> None:
    table = CommittedValues()
    del table.values[OWN]
    with pytest.raises(Fenced):
        table.commit(part_of({1: [make_batch()]}))


def test_a_stream_whose_batches_are_all_refused_leaves_no_entry() -> None:
    table = CommittedValues()
    table.commit(part_of({1: [sent(0)], 2: [sent(0)]}))
    before = dict(table.values)
    second = Section("s", "wal/a/2.wo", 0, 99, grows=False, part_numbers=iter(()))
    _, outcome = table.commit(part_of({1: [sent(0), sent(9)], 2: [sent(1)]}, 2, second))
    assert [one.entry is None for one in outcome] == [True, False]
    assert table.values[keys.tail(0, 1)] == before[keys.tail(0, 1)]
    assert table.keys(keys.index(0, 1)) == [keys.index_entry(0, 1, 1)]
    record = decode(ObjectRecord, table.values[keys.object_record(0, second.key, 0)])
    assert (record.live, record.size, record.parts) == ([2], 99, 1)
    assert not table.keys(keys.releases(0))


def test_an_object_in_which_nothing_lives_is_released_at_once() -> None:
    table = CommittedValues()
    table.values[keys.tail(0, 1)] = encode(Tail(deleted=True, high_watermark=4))
    _, (commit,) = table.commit(part_of({1: [make_batch(), make_batch()]}))
    code = UnknownTopicOrPartition.code
    assert commit.verdicts == [(0, code, -1), (1, code, -1)]
    (released,) = table.keys(keys.releases(0))
    release = decode(Release, table.values[released])
    assert [chunk[:2] for chunk in release.chunks] == [(FILE.key, 0)]
    assert release.released_ms == 50
    assert decode(ObjectRecord, table.values[keys.object_record(0, FILE.key, 0)]).live == []


def test_left_out_batches_count_in_nothing() -> None:
    table = CommittedValues()
    late = make_batch(b"x" * 500, timestamp=10**13, producer_id=7, epoch=0, sequence=3)
    table.commit(part_of({1: [sent(0, count=2), late, sent(2)]}))
    entry = decode(IndexEntry, table.values[keys.index_entry(0, 1, 3)])
    assert entry.left_out == [1]
    assert entry.max_timestamp < 10**13
    assert entry.size == table.tail(1).size == 2 * sent(0).size


def test_producers_idle_for_long_are_forgotten_by_a_later_commit() -> None:
    table = CommittedValues()
    table.commit(part_of({1: [sent(0, producer=1)]}), now_ms=0)
    table.commit(part_of({1: [sent(0, producer=2)]}, 2), now_ms=900)
    assert set(table.tail(1).producers) == {1, 2}
    table.commit(part_of({1: [make_batch()]}, 3), now_ms=1_001)
    assert set(table.tail(1).producers) == {2}


@pytest.mark.parametrize("batches", [1, REMEMBERED_BATCHES])
def test_a_tail_stays_small_however_many_producers_come_and_go(batches: int) -> None:
    """Every commit to a stream reads and writes it, so its size is the time that commits take."""
    table = CommittedValues()
    for number in range(50):
        new = range(number * 400, number * 400 + 400)
        sent_now = [sent(sequence, producer) for producer in new for sequence in range(batches)]
        table.commit(part_of({1: sent_now}, number + 1), now_ms=10**12 + number)
        remembered = table.tail(1).producers
        assert len(table.values[keys.tail(0, 1)]) <= TAIL_BYTES
        assert len(remembered) <= MAX_PRODUCERS
        assert set(new) <= set(remembered)
    assert len(remembered) > 400
    assert list(remembered) == sorted(remembered)


def test_very_many_producers_in_one_commit_are_bounded_too() -> None:
    table = CommittedValues()
    table.commit(part_of({1: [sent(0, producer) for producer in range(20_000)]}))
    assert max(table.tail(1).producers) == 19_999
    assert len(table.values[keys.tail(0, 1)]) <= TAIL_BYTES
    again = [sent(0, 19_999), sent(0, 1)]
    _, (outcome,) = table.commit(part_of({1: again}, 2))
    assert outcome.verdicts == [(0, DUPLICATE, 19_999)]
    assert outcome.end == 20_001  # the other was forgotten, as in Kafka after its expiry


@settings(max_examples=40)
@given(st.data())
def test_the_live_set_is_the_streams_with_an_entry(data: st.DataObject) -> None:
    table = CommittedValues()
    for number in range(1, 5):
        batches = data.draw(
            st.dictionaries(
                st.integers(1, 4),
                st.lists(st.builds(sent, st.integers(0, 3), st.integers(-1, 1)), min_size=1),
                min_size=1,
            )
        )
        file = Section("s", f"wal/a/{number}.wo", 0, 1, grows=False, part_numbers=iter(()))
        _, outcome = table.commit(part_of(dict(batches), number, file))
        record = decode(ObjectRecord, table.values[keys.object_record(0, file.key, 0)])
        referring = [
            stream
            for stream in sorted(batches)
            for key in table.keys(keys.index(0, stream))
            if decode(IndexEntry, table.values[key]).key == file.key
        ]
        assert record.live == referring
        assert referring == [one.stream for one in outcome if one.entry is not None]
    for stream in range(1, 5):
        ends = [int(key.rsplit("/", 1)[1]) for key in table.keys(keys.index(0, stream))]
        found = [decode(IndexEntry, table.values[key]) for key in table.keys(keys.index(0, stream))]
        assert [entry.end for entry in found] == ends
        assert [entry.start for entry in found] == [0, *ends][: len(ends)]
