"""The rules of transactions on one stream, and the invariants of the last stable offset."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from headwater.log.append.commit import encode_bounded
from headwater.log.append.judge import DUPLICATE, Judgement, forget_idle_producers, judge
from headwater.log.append.open_transactions import AbortedRange
from headwater.log.formats.metadata_values import Tail
from headwater.meta.values import decode
from headwater.wire.batches.batch import CONTROL, TRANSACTIONAL, Batch
from headwater.wire.batches.markers import MarkerType
from tests.support.log.harness import make_batch, make_marker

ABORT, COMMIT = MarkerType.ABORT, MarkerType.COMMIT


def data(sequence: int, *, count: int = 1, producer: int = 7, epoch: int = 0) -> Batch:
    return make_batch(count=count, producer_id=producer, epoch=epoch, sequence=sequence)


def part(sequence: int, *, count: int = 1, producer: int = 7, epoch: int = 0) -> Batch:
    """A batch of a transaction."""
    return make_batch(
        count=count, producer_id=producer, epoch=epoch, sequence=sequence, attributes=TRANSACTIONAL
    )


def append(tail: Tail, *batches: Batch) -> list[AbortedRange]:
    judgement = judge(tail, batches, 0)
    assert not judgement.verdicts
    return judgement.aborted


def bounds(tail: Tail) -> tuple[int, int]:
    return tail.last_stable, tail.high_watermark


def test_stable_records_end_where_the_oldest_open_transaction_begins() -> None:
    tail = Tail()
    append(tail, make_batch(count=3), part(0, count=2), make_batch(), part(0, producer=8))
    assert bounds(tail) == (3, 7)
    append(tail, part(2, count=4), make_marker(COMMIT, 7, 0))
    assert bounds(tail) == (6, 12)
    append(tail, make_marker(COMMIT, 8, 0))
    assert bounds(tail) == (13, 13)


def test_a_transaction_begins_at_its_first_batch_and_ends_at_its_marker() -> None:
    tail = Tail()
    append(tail, part(0, count=2), part(2))
    assert tail.producers[7].transaction_start == 0
    append(tail, make_marker(COMMIT, 7, 0, coordinator_epoch=5))
    assert tail.producers[7].transaction_start == -1
    assert tail.producers[7].coordinator_epoch == 5
    append(tail, part(3))
    assert tail.producers[7].transaction_start == 4


def test_an_abort_yields_the_range_from_the_first_record_to_the_marker() -> None:
    tail = Tail()
    append(tail, make_batch(count=3), part(0, count=2), make_batch(count=4))
    assert append(tail, make_marker(ABORT, 7, 0)) == [AbortedRange(7, 3, 9)]
    assert append(tail, make_marker(ABORT, 7, 0)) == []
    assert bounds(tail) == (11, 11)


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_of_a_producer_without_state_is_appended_and_ends_nothing(
    kind: MarkerType,
) -> None:
    tail = Tail()
    assert append(tail, make_marker(kind, 7, 3, coordinator_epoch=2)) == []
    assert bounds(tail) == (1, 1)
    state = tail.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.batches) == (3, 2, [])


def refused(tail: Tail, batch: Batch) -> int:
    before = encode_bounded(tail)
    ((number, code, _),) = judge(tail, [batch], 9).verdicts
    assert number == 0
    assert encode_bounded(tail) == before
    return code


def test_data_outside_of_the_open_transaction_is_refused() -> None:
    tail = Tail()
    append(tail, part(0))
    assert refused(tail, data(1)) == InvalidTxnState.code
    append(tail, data(0, producer=8), make_marker(COMMIT, 7, 0), data(1))


def test_markers_of_older_epochs_are_refused() -> None:
    tail = Tail()
    append(tail, part(0, epoch=2), make_marker(COMMIT, 7, 2, coordinator_epoch=5))
    append(tail, part(1, epoch=2))
    assert refused(tail, make_marker(COMMIT, 7, 1, coordinator_epoch=6)) == (
        InvalidProducerEpoch.code
    )
    assert refused(tail, make_marker(COMMIT, 7, 2, coordinator_epoch=4)) == (
        TransactionCoordinatorFenced.code
    )
    assert bounds(tail) == (2, 3)


def test_a_control_batch_without_a_marker_is_refused() -> None:
    other = make_batch(b"\0" * 9, producer_id=7, epoch=0, attributes=CONTROL)
    assert refused(Tail(), other) == InvalidRecord.code


def test_a_control_batch_of_no_producer_is_appended() -> None:
    tail = Tail()
    append(tail, part(0), make_batch(b"\0" * 9, attributes=TRANSACTIONAL | CONTROL))
    assert bounds(tail) == (0, 2)


def test_after_a_marker_of_a_newer_epoch_the_producer_begins_with_0() -> None:
    tail = Tail()
    append(tail, part(0), make_marker(ABORT, 7, 1))
    assert refused(tail, part(1)) == InvalidProducerEpoch.code
    assert refused(tail, part(1, epoch=1)) == OutOfOrderSequence.code
    append(tail, part(0, epoch=1))


def test_a_marker_between_them_changes_no_sequence_and_hides_no_duplicate() -> None:
    tail = Tail()
    append(tail, part(0), make_marker(COMMIT, 7, 0))
    assert judge(tail, [part(0)], 0) == Judgement([(0, DUPLICATE, 0)], [])
    assert tail.producers[7].transaction_start == -1
    append(tail, part(1))


def test_a_newer_epoch_without_a_marker_continues_the_open_transaction() -> None:
    tail = Tail()
    append(tail, part(0), part(0, epoch=1))
    assert bounds(tail) == (0, 2)
    assert append(tail, make_marker(ABORT, 7, 1)) == [AbortedRange(7, 0, 2)]


@dataclass(frozen=True)
class SentBatch:
    """What a producer sends; ``skew`` is off its next sequence and ``bump`` off its epoch."""

    kind: str
    producer: int
    count: int
    skew: int
    bump: int


STEPS = st.lists(
    st.builds(
        SentBatch,
        st.sampled_from(["data", "part", "part", "commit", "abort", "forget"]),
        st.integers(-1, 3),
        st.integers(1, 4),
        st.sampled_from([0, 0, 0, 0, 1, -1]),
        st.sampled_from([0, 0, 0, 0, 1, -1]),
    ),
    max_size=60,
)


class ProducerModel:
    """What producers would send next, by what was appended of theirs."""

    def __init__(self) -> None:
        self.next: dict[int, tuple[int, int]] = {}

    def batch(self, step: SentBatch) -> Batch:
        producer = step.producer
        if producer < 0:
            return make_batch(count=step.count)
        epoch, sequence = self.next.get(producer, (1, 0))
        epoch += step.bump
        if step.kind in ("commit", "abort"):
            return make_marker(ABORT if step.kind == "abort" else COMMIT, producer, epoch)
        sequence = max(0, (0 if step.bump > 0 else sequence) + step.skew)
        return make_batch(
            count=step.count,
            producer_id=producer,
            epoch=epoch,
            sequence=sequence,
            attributes=TRANSACTIONAL if step.kind == "part" else 0,
        )

    def appended(self, batch: Batch) -> None:
        epoch, sequence = self.next.get(batch.producer_id, (batch.producer_epoch, 0))
        if batch.is_control:
            sequence = sequence if batch.producer_epoch == epoch else 0
        else:
            sequence = batch.base_sequence + batch.count
        self.next[batch.producer_id] = batch.producer_epoch, sequence


@given(STEPS, st.lists(st.integers(1, 5), min_size=60, max_size=60))
def test_the_last_stable_offset_is_the_oldest_open_transactions_and_never_goes_back(
    steps: list[SentBatch], sizes: list[int]
) -> None:
    """The invariants of ``open_transactions``, beside a model that knows what was appended."""
    tail, sender = Tail(), ProducerModel()
    opened: dict[int, int] = {}
    while steps:
        taken, steps = steps[: sizes[0]], steps[sizes[0] :]
        sizes = sizes[1:]
        if any(step.kind == "forget" for step in taken):
            forget_idle_producers(tail, 100, 0)
        batches = [sender.batch(step) for step in taken if step.kind != "forget"]
        before, offset = tail.last_stable, tail.high_watermark
        judgement = judge(tail, batches, 0)
        refused = {number for number, _, _ in judgement.verdicts}
        aborted = []
        for number, batch in enumerate(batches):
            if number in refused:
                continue
            if batch.producer_id >= 0:
                sender.appended(batch)
            if batch.is_control:
                start = opened.pop(batch.producer_id, None)
                if start is not None and batch.marker == make_marker(ABORT, 0, 0).marker:
                    aborted.append(AbortedRange(batch.producer_id, start, offset))
            elif batch.is_transactional:
                opened.setdefault(batch.producer_id, offset)
            else:
                assert batch.producer_id not in opened
            offset += batch.count
        assert judgement.aborted == aborted
        assert tail.high_watermark == offset
        assert before <= tail.last_stable <= tail.high_watermark
        assert tail.last_stable == min(opened.values(), default=tail.high_watermark)
        assert (tail.last_stable == tail.high_watermark) == (not opened)
        tail = decode(Tail, encode_bounded(tail))
