"""Whether a batch is appended: the rules for producers' batches, as pure functions.

A batch without a producer id is appended. Others are judged by their kind: data by its sequence,
transactional data also by its producer's transaction, a control batch by its marker
(``open_transactions``). The rules for sequences are Kafka 4's own (``ProducerAppendInfo`` and
``ProducerStateEntry``):

- A producer without state may begin with any sequence. Kafka lets it at once; here a batch that is
  not at 0 is refused (45) until it is among the ``latecomers``, because the one in front may be
  under way at another broker.
- An epoch older than the one remembered is refused (47).
- A newer epoch begins with sequence 0, or is refused (45).
- A batch whose first and last sequence equal one of the last five of that epoch is a
  duplicate: it is answered with its first offset and not appended.
- Any other batch must follow the last sequence, or is refused (45). The first one after a marker
  of a newer epoch begins with 0.

A tail's producers are in the order of their last batches.

Invariant: the verdicts depend on the committed tail, the batches' order and the latecomers alone,
so judging the same batches again after a lost comparison is safe.
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
MOST_PRODUCERS = 2000
"""The producers that a partition remembers, if their bytes allow (``commit``)."""
APPENDED = 0
DUPLICATE = -1
"""The code of a verdict that is no error: the batch is there already."""

Place = tuple[int, int]
"""An epoch and a sequence in it."""


class JudgedBatch(ControlBatch, Protocol):
    """What the rules look at; at ``marker`` only in a control batch."""

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
    """What became of batches."""

    verdicts: list[tuple[int, int, int]]
    """(number, code, offset) of those that were not appended. The offset is a duplicate's first
    offset, with 45 the sequence that was expected, and -1 where there is none."""
    aborted: list[AbortedRange]
    """The transactions that their markers aborted."""


def judge(
    tail: Tail,
    batches: Iterable[JudgedBatch],
    now_ms: int,
    latecomers: Mapping[int, Place] | None = None,
) -> Judgement:
    """Append what may be appended to ``tail``, which is changed in place.

    Its watermarks, size and producers are those after the batches. ``latecomers`` are the
    producers that may begin in the middle, each with one batch; None lets all.
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
                    code, known = _judge_data(tail.producers, batch, offset, now_ms, latecomers)
                case BatchKind.TRANSACTIONAL:
                    unstable = True
                    code, known = _judge_transactional(
                        tail.producers, batch, offset, now_ms, latecomers
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
    # Looking at every producer is for streams with transactions only.
    tail.last_stable = last_stable_offset(tail) if unstable else offset
    tail.size = size
    return judgement


def _judge_data(
    producers: dict[int, ProducerState],
    batch: JudgedBatch,
    offset: int,
    now_ms: int,
    latecomers: Mapping[int, Place] | None,
) -> tuple[int, int]:
    state = producers.get(batch.producer_id)
    code, known = _check_sequence(state, batch, latecomers)
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
    latecomers: Mapping[int, Place] | None,
) -> tuple[int, int]:
    code, known = _check_sequence(producers.get(batch.producer_id), batch, latecomers)
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
    state: ProducerState | None, batch: JudgedBatch, latecomers: Mapping[int, Place] | None
) -> tuple[int, int]:
    """The code, and the offset or sequence that goes with it."""
    first = batch.base_sequence
    if state is None:
        place = batch.producer_epoch, first
        if first == 0 or latecomers is None or latecomers.get(batch.producer_id) == place:
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
    """Take a batch that was appended at ``offset`` into its producer's state."""
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
    producers[batch.producer_id] = state  # the last that wrote
    return state


def forget_idle_producers(tail: Tail, now_ms: int, expiration_ms: int) -> None:
    """Drop the producers that were idle for so long."""
    before_ms = now_ms - expiration_ms
    idle = []
    for producer, state in tail.producers.items():
        if state.seen_ms >= before_ms:
            break  # those behind it wrote later
        if not is_open(state):
            idle.append(producer)
    for producer in idle:
        del tail.producers[producer]


def forget_oldest_producers(tail: Tail, left: int) -> None:
    """Drop those that wrote longest ago, so that no more than ``left`` are remembered.

    One with an open transaction stays.
    """
    surplus = len(tail.producers) - left
    if surplus <= 0:
        return
    ended = (one for one, state in tail.producers.items() if not is_open(state))
    for producer in list(islice(ended, surplus)):
        del tail.producers[producer]
