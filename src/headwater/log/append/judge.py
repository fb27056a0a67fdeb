"""Whether a batch is appended: the rules for producers' batches, as pure functions.

A batch without a producer id is appended. Others are judged by their kind: data by its sequence,
transactional data also by its producer's transaction, a control batch by its marker
(``open_transactions``). The rules for sequences are Kafka 4's own (``ProducerAppendInfo`` and
``ProducerStateEntry``):

- A producer without state may begin with any sequence. Kafka accepts it at once. Here a batch whose
  sequence is not 0 is refused (45) until it is one of the ``accepted_starts``, because the batch
  before it may be in flight at another broker.
- An epoch older than the one remembered is refused (47).
- A newer epoch begins with sequence 0, or is refused (45).
- A batch whose first and last sequence equal one of the last five of that epoch is a
  duplicate: it is answered with its first offset and not appended.
- Any other batch must follow the last sequence, or is refused (45). The first one after a marker
  of a newer epoch begins with 0.

The producers of a tail are sorted by the time of their last batch.

Invariant: the verdicts depend only on the committed tail, the order of the batches and the accepted
starts. So it is safe to judge the same batches again after a lost comparison.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from headwater.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    UnknownTopicOrPartition,
)
from headwater.log.append.open_transactions import (
    AbortedRange,
    ControlBatch,
    end_transaction,
    is_open,
    last_stable_offset,
    open_transaction,
    refusal,
)
from headwater.log.formats.metadata_values import ProducerState, Tail
from headwater.wire.batches.batch import BatchKind, next_sequence

REMEMBERED_BATCHES = 5
MAX_PRODUCERS = 2000
"""Producers that a partition remembers, if they fit into ``commit.TAIL_BYTES``."""
APPENDED = 0
DUPLICATE = -1
"""The code of a verdict that is no error: the batch was appended before."""

SequencePosition = tuple[int, int]
"""An epoch and a sequence in it."""


class JudgedBatch(ControlBatch, Protocol):
    """The fields that the rules use; ``marker`` only of a control batch."""

    @property
    def kind(self) -> BatchKind: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdicts on batches."""

    verdicts: list[tuple[int, int, int]]
    """(number, code, offset) of each batch that was not appended. The offset is a duplicate's first
    offset, the expected sequence if the code is 45, and else -1."""
    aborted: list[AbortedRange]
    """The transactions that their markers aborted."""


def judge(
    tail: Tail,
    batches: Iterable[JudgedBatch],
    now_ms: int,
    accepted_starts: Mapping[int, SequencePosition] | None = None,
) -> Judgement:
    """Append to ``tail`` what the rules allow; the tail is changed in place.

    ``accepted_starts``, by producer, are the batches with which a producer without state may begin
    although their sequence is not 0. None allows any batch.
    """
    judgement = Judgement([], [])
    offset, size = tail.high_watermark, tail.size
    unstable = tail.last_stable < offset
    for number, batch in enumerate(batches):
        if tail.deleted:
            code, known = UnknownTopicOrPartition.code, -1
        elif batch.producer_id < 0:
            code, known = APPENDED, offset
        else:
            match batch.kind:
                case BatchKind.DATA:
                    code, known = _judge_data(
                        tail.producers, batch, offset, now_ms, accepted_starts
                    )
                case BatchKind.TRANSACTIONAL:
                    unstable = True
                    code, known = _judge_transactional(
                        tail.producers, batch, offset, now_ms, accepted_starts
                    )
                case BatchKind.CONTROL:
                    code, known = _judge_control(
                        tail.producers, batch, offset, now_ms, judgement.aborted
                    )
        if code != APPENDED:
            judgement.verdicts.append((number, code, known))
            continue
        offset += batch.count
        size += batch.size
    tail.high_watermark = offset
    # Only streams with transactions need a scan of all producers.
    tail.last_stable = last_stable_offset(tail) if unstable else offset
    tail.size = size
    return judgement


def _judge_data(
    producers: dict[int, ProducerState],
    batch: JudgedBatch,
    offset: int,
    now_ms: int,
    accepted_starts: Mapping[int, SequencePosition] | None,
) -> tuple[int, int]:
    state = producers.get(batch.producer_id)
    code, known = _check_sequence(state, batch, accepted_starts)
    if code != APPENDED:
        return code, known
    if state is not None and is_open(state):
        return InvalidTxnState.code, -1
    _remember(producers, batch, offset, now_ms)
    return APPENDED, offset


def _judge_transactional(
    producers: dict[int, ProducerState],
    batch: JudgedBatch,
    offset: int,
    now_ms: int,
    accepted_starts: Mapping[int, SequencePosition] | None,
) -> tuple[int, int]:
    code, known = _check_sequence(producers.get(batch.producer_id), batch, accepted_starts)
    if code != APPENDED:
        return code, known
    open_transaction(_remember(producers, batch, offset, now_ms), offset)
    return APPENDED, offset


def _judge_control(
    producers: dict[int, ProducerState],
    batch: JudgedBatch,
    offset: int,
    now_ms: int,
    aborted: list[AbortedRange],
) -> tuple[int, int]:
    error = refusal(producers.get(batch.producer_id), batch)
    if error is not None:
        return error.code, -1
    ended = end_transaction(producers, batch, offset, now_ms)
    if ended is not None:
        aborted.append(ended)
    return APPENDED, offset


def _check_sequence(
    state: ProducerState | None,
    batch: JudgedBatch,
    accepted_starts: Mapping[int, SequencePosition] | None,
) -> tuple[int, int]:
    """The code, and the offset or sequence of its verdict."""
    first = batch.base_sequence
    if state is None:
        place = batch.producer_epoch, first
        if first == 0 or accepted_starts is None or accepted_starts.get(batch.producer_id) == place:
            return APPENDED, -1
        return OutOfOrderSequence.code, -1
    if batch.producer_epoch < state.epoch:
        return InvalidProducerEpoch.code, -1
    expected = 0
    if batch.producer_epoch == state.epoch and state.batches:
        last = next_sequence(first, batch.count - 1)
        for known_first, known_last, known_offset in state.batches:
            if known_first == first and known_last == last:
                return DUPLICATE, known_offset
        expected = next_sequence(state.batches[-1][1], 1)
    return (APPENDED, -1) if first == expected else (OutOfOrderSequence.code, expected)


def _remember(
    producers: dict[int, ProducerState], batch: JudgedBatch, offset: int, now_ms: int
) -> ProducerState:
    """Add a batch that was appended at ``offset`` to its producer's state."""
    first = batch.base_sequence
    written = (first, next_sequence(first, batch.count - 1), offset)
    state = producers.pop(batch.producer_id, None)
    if state is None:
        state = ProducerState(batch.producer_epoch, now_ms, [written])
    elif batch.producer_epoch > state.epoch:
        state.epoch = batch.producer_epoch
        state.batches = [written]
    else:
        state.batches = [*state.batches[1 - REMEMBERED_BATCHES :], written]
    state.seen_ms = now_ms
    producers[batch.producer_id] = state  # moved to the end: it wrote last
    return state


def forget_idle_producers(tail: Tail, now_ms: int, expiration_ms: int) -> None:
    """Drop the producers that have been idle for ``expiration_ms``."""
    before_ms = now_ms - expiration_ms
    idle = []
    for producer, state in tail.producers.items():
        if state.seen_ms >= before_ms:
            break  # all others wrote later
        if not is_open(state):
            idle.append(producer)
    for producer in idle:
        del tail.producers[producer]


def forget_oldest_producers(tail: Tail, left: int) -> None:
    """Drop the producers that have been idle longest until ``left`` remain.

    A producer with an open transaction stays.
    """
    surplus = len(tail.producers) - left
    if surplus <= 0:
        return
    ended = (one for one, state in tail.producers.items() if not is_open(state))
    for producer in list(islice(ended, surplus)):
        del tail.producers[producer]
