"""The rules for idempotent producers, and a model that no retry can fool."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownTopicOrPartition
from headwater.log.append.judge import (
    DUPLICATE,
    REMEMBERED_BATCHES,
    SequencePosition,
    forget_idle_producers,
    forget_oldest_producers,
)
from headwater.log.append.judge import judge as judge_batches
from headwater.log.formats.metadata_values import Tail
from headwater.wire.batches.batch import MAX_SEQUENCE, BatchKind, next_sequence


@dataclass(frozen=True)
class Sent:
    count: int
    base_sequence: int
    producer_id: int = 7
    producer_epoch: int = 0
    size: int = 100
    kind: BatchKind = BatchKind.DATA
    marker: None = None


def judge(
    tail: Tail,
    batches: Iterable[Sent],
    now_ms: int,
    accepted_starts: Mapping[int, SequencePosition] | None = None,
) -> list[tuple[int, int, int]]:
    """The verdicts: data aborts no transaction."""
    judgement = judge_batches(tail, batches, now_ms, accepted_starts)
    assert not judgement.aborted
    return judgement.verdicts


def test_a_producer_without_state_that_is_no_latecomer_begins_with_0() -> None:
    tail = Tail()
    refused = [(0, OutOfOrderSequence.code, -1), (1, OutOfOrderSequence.code, -1)]
    assert judge(tail, [Sent(3, 1234), Sent(2, 1237)], 0, {8: (0, 1234)}) == refused
    assert tail.producers == {}
    assert judge(tail, [Sent(3, 0), Sent(2, 3)], 0, {}) == []


def test_a_latecomer_begins_with_its_foremost_batch_alone() -> None:
    tail, allowed = Tail(), {7: (2, 1234)}
    for refused in (Sent(2, 1237, producer_epoch=2), Sent(3, 1234, producer_epoch=1)):
        assert judge(tail, [refused], 0, allowed) == [(0, OutOfOrderSequence.code, -1)]
    both = [Sent(3, 1234, producer_epoch=2), Sent(2, 1237, producer_epoch=2)]
    assert judge(tail, both, 0, allowed) == []


def test_a_producer_without_state_begins_with_any_sequence() -> None:
    tail = Tail()
    assert judge(tail, [Sent(3, 1234), Sent(2, 1237)], 0) == []
    assert tail.high_watermark == tail.last_stable == 5
    assert tail.size == 200


def test_an_older_epoch_is_refused_and_changes_nothing() -> None:
    tail = Tail()
    judge(tail, [Sent(1, 0, producer_epoch=3)], 0)
    refused = Sent(1, 1, producer_epoch=2)
    assert judge(tail, [refused], 9) == [(0, InvalidProducerEpoch.code, -1)]
    assert tail.high_watermark == 1
    assert tail.producers[7].epoch == 3
    assert tail.producers[7].seen_ms == 0


@pytest.mark.parametrize("sequence", [1, 5, MAX_SEQUENCE])
def test_a_newer_epoch_begins_at_zero(sequence: int) -> None:
    tail = Tail()
    judge(tail, [Sent(1, 0), Sent(1, 1)], 0)
    newer = [Sent(1, sequence, producer_epoch=1)]
    assert judge(tail, newer, 0) == [(0, OutOfOrderSequence.code, 0)]
    assert tail.producers[7].epoch == 0
    assert judge(tail, [Sent(1, 0, producer_epoch=1)], 0) == []
    assert tail.producers[7].epoch == 1


def test_a_batch_of_an_old_epoch_is_no_duplicate() -> None:
    tail = Tail()
    judge(tail, [Sent(2, 0)], 0)
    judge(tail, [Sent(2, 0, producer_epoch=1)], 0)
    assert tail.high_watermark == 4
    assert judge(tail, [Sent(2, 0, producer_epoch=1)], 0) == [(0, DUPLICATE, 2)]
    assert judge(tail, [Sent(2, 0)], 0) == [(0, InvalidProducerEpoch.code, -1)]


def test_the_last_five_batches_are_known_with_their_offsets() -> None:
    tail = Tail()
    sent = [Sent(2, 2 * number) for number in range(8)]
    judge(tail, sent, 0)
    assert len(tail.producers[7].batches) == REMEMBERED_BATCHES
    for number in range(8):
        known = number >= 8 - REMEMBERED_BATCHES
        expected = (0, DUPLICATE, 2 * number) if known else (0, OutOfOrderSequence.code, 16)
        assert judge(tail, [sent[number]], 0) == [expected]
    assert tail.high_watermark == 16


def test_a_duplicate_needs_the_same_last_sequence_too() -> None:
    tail = Tail()
    judge(tail, [Sent(5, 0)], 0)
    assert judge(tail, [Sent(3, 0)], 0) == [(0, OutOfOrderSequence.code, 5)]


def test_sequences_wrap() -> None:
    tail = Tail()
    inside = Sent(4, MAX_SEQUENCE - 1)
    assert judge(tail, [inside, Sent(1, 2), inside], 0) == [(2, DUPLICATE, 0)]
    exactly = Tail()
    assert judge(exactly, [Sent(1, MAX_SEQUENCE), Sent(1, 0)], 0) == []


def test_a_deleted_stream_takes_nothing() -> None:
    tail = Tail(deleted=True, high_watermark=5, last_stable=5, size=9)
    anyone = [Sent(1, 0), Sent(1, 0, producer_id=-1)]
    code = UnknownTopicOrPartition.code
    assert judge(tail, anyone, 0) == [(0, code, -1), (1, code, -1)]
    assert (tail.high_watermark, tail.size, tail.producers) == (5, 9, {})


def test_only_idle_producers_without_a_transaction_are_forgotten() -> None:
    tail = Tail()
    judge(tail, [Sent(1, 0, producer_id=1)], 10)
    judge(tail, [Sent(1, 0, producer_id=2)], 20)
    judge(tail, [Sent(1, 0, producer_id=3)], 10)
    tail.producers[3].transaction_start = 0
    forget_idle_producers(tail, 30, 10)
    assert set(tail.producers) == {2, 3}


def test_beyond_the_bound_the_longest_idle_producers_are_forgotten() -> None:
    tail = Tail()
    for producer in range(10):
        judge(tail, [Sent(1, 0, producer_id=producer)], producer)
    judge(tail, [Sent(1, 1, producer_id=0)], 10)
    tail.producers[1].transaction_start = 0
    forget_oldest_producers(tail, 10)
    assert len(tail.producers) == 10
    forget_oldest_producers(tail, 4)
    assert list(tail.producers) == [1, 8, 9, 0]
    forget_oldest_producers(tail, 0)
    assert list(tail.producers) == [1]


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    start=st.sampled_from([0, 17, MAX_SEQUENCE - 20, MAX_SEQUENCE]),
    data=st.data(),
)
def test_retries_append_nothing_twice_and_never_refuse_the_next(
    counts: list[int], start: int, data: st.DataObject
) -> None:
    sent: list[Sent] = []
    sequence = start
    for count in counts:
        sent.append(Sent(count, sequence, size=count * 10))
        sequence = next_sequence(sequence, count)
    tail = Tail()
    offsets: dict[int, int] = {}
    upcoming = 0
    while upcoming < len(sent):
        oldest = max(0, upcoming - REMEMBERED_BATCHES)
        retried = data.draw(st.lists(st.integers(oldest, upcoming), max_size=6))
        before = tail.high_watermark
        verdicts = judge(tail, [sent[number] for number in [*retried, upcoming]], 0)
        appended = upcoming
        offsets[appended] = before
        first = retried.index(appended) if appended in retried else len(retried)
        expected = []
        for place, number in enumerate([*retried, upcoming]):
            if place == first:
                continue
            # The append in the middle may push the oldest out of what is remembered.
            forgotten = place > first and number <= appended - REMEMBERED_BATCHES
            code = OutOfOrderSequence.code if forgotten else DUPLICATE
            behind = next_sequence(sent[appended].base_sequence, sent[appended].count)
            expected.append((place, code, behind if forgotten else offsets[number]))
        assert verdicts == expected
        upcoming += 1
    assert tail.high_watermark == tail.last_stable == sum(counts)
    assert tail.size == 10 * sum(counts)


@given(
    st.lists(
        st.builds(
            Sent,
            st.integers(1, 3),
            st.integers(0, 6),
            st.integers(-1, 2),
            st.integers(0, 2),
            st.integers(61, 99),
        ),
        max_size=40,
    )
)
def test_judging_in_parts_is_judging_at_once(batches: list[Sent]) -> None:
    whole, parts = Tail(), Tail()
    verdicts = judge(whole, batches, 1)
    apart: list[tuple[int, int, int]] = []
    for number, batch in enumerate(batches):
        apart += [(number, code, at) for _, code, at in judge(parts, [batch], 1)]
    assert verdicts == apart
    assert whole == parts
    refused = {number for number, _, _ in verdicts}
    kept = [batch for number, batch in enumerate(batches) if number not in refused]
    assert whole.high_watermark == sum(batch.count for batch in kept)
    assert whole.size == sum(batch.size for batch in kept)
    for state in whole.producers.values():
        assert 1 <= len(state.batches) <= REMEMBERED_BATCHES
