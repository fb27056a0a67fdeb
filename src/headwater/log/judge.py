"""Whether a batch is appended: the rules for idempotent producers, as pure functions.

They are Kafka 4's own (``ProducerAppendInfo`` and ``ProducerStateEntry``):

- A producer without state may begin with any sequence. Kafka lets it at once; here a batch that is
  not at 0 is refused (45) until it is among the ``latecomers``, because the one in front may be
  under way at another broker.
- An epoch older than the one remembered is refused (47).
- A newer epoch begins with sequence 0, or is refused (45).
- A batch whose first and last sequence equal one of the last five of that epoch is a
  duplicate: it is answered with its first offset and not appended.
- Any other batch must follow the last sequence, or is refused (45).

A tail's producers are in the order of their last batches.

Invariant: the verdicts depend on the committed tail, the batches' order and the latecomers alone,
so judging the same batches again after a lost comparison is safe.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Protocol

from headwater.errors import InvalidProducerEpoch, OutOfOrderSequence, UnknownTopicOrPartition
from headwater.log.formats import ProducerState, Tail
from headwater.wire.batch import next_sequence

REMEMBERED_BATCHES = 5
MOST_PRODUCERS = 2000
"""The producers that a partition remembers, if their bytes allow (``commit``)."""
APPENDED = 0
DUPLICATE = -1
"""The code of a verdict that is no error: the batch is there already."""

Place = tuple[int, int]
"""An epoch and a sequence in it."""


class JudgedBatch(Protocol):
    """What the rules look at."""

    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...


def judge(
    tail: Tail,
    batches: Iterable[JudgedBatch],
    now_ms: int,
    latecomers: Mapping[int, Place] | None = None,
) -> list[tuple[int, int, int]]:
    """Append what may be appended to ``tail``; return (number, code, offset) of the others.

    ``tail`` is changed in place: its watermarks, size and producers are those after the
    batches. The offset is a duplicate's first offset, with 45 the sequence that was expected, and
    -1 where there is none. ``latecomers`` are the producers that may begin in the middle, each
    with one batch; None lets all.
    """
    verdicts: list[tuple[int, int, int]] = []
    offset, size = tail.high_watermark, tail.size
    for number, batch in enumerate(batches):
        if tail.deleted:
            verdicts.append((number, UnknownTopicOrPartition.code, -1))
            continue
        if batch.producer_id >= 0:
            new = batch.producer_id not in tail.producers
            if (
                new
                and batch.base_sequence != 0
                and latecomers is not None
                and latecomers.get(batch.producer_id) != (batch.producer_epoch, batch.base_sequence)
            ):
                verdicts.append((number, OutOfOrderSequence.code, -1))
                continue
            code, known = _judge_sequence(tail.producers, batch, offset, now_ms)
            if code != APPENDED:
                verdicts.append((number, code, known))
                continue
        offset += batch.count
        size += batch.size
    tail.high_watermark = tail.last_stable = offset
    tail.size = size
    return verdicts


def _judge_sequence(
    producers: dict[int, ProducerState], batch: JudgedBatch, offset: int, now_ms: int
) -> tuple[int, int]:
    first = batch.base_sequence
    last = next_sequence(first, batch.count - 1)
    state = producers.get(batch.producer_id)
    if state is None:
        producers[batch.producer_id] = ProducerState(
            batch.producer_epoch, now_ms, [(first, last, offset)]
        )
        return APPENDED, offset
    if batch.producer_epoch < state.epoch:
        return InvalidProducerEpoch.code, -1
    if batch.producer_epoch > state.epoch:
        if first != 0:
            return OutOfOrderSequence.code, 0
        state.epoch = batch.producer_epoch
        state.batches = []
    else:
        for known_first, known_last, known_offset in state.batches:
            if known_first == first and known_last == last:
                return DUPLICATE, known_offset
        if state.batches and first != (expected := next_sequence(state.batches[-1][1], 1)):
            return OutOfOrderSequence.code, expected
    state.batches = [*state.batches[1 - REMEMBERED_BATCHES :], (first, last, offset)]
    state.seen_ms = now_ms
    producers[batch.producer_id] = producers.pop(batch.producer_id)  # now the last that wrote
    return APPENDED, offset


def forget_idle_producers(tail: Tail, now_ms: int, expiration_ms: int) -> None:
    """Drop the producers that were idle for so long."""
    before_ms = now_ms - expiration_ms
    idle = []
    for producer, state in tail.producers.items():
        if state.seen_ms >= before_ms:
            break  # those behind it wrote later
        if state.transaction_start < 0:
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
    ended = (one for one, state in tail.producers.items() if state.transaction_start < 0)
    for producer in list(islice(ended, surplus)):
        del tail.producers[producer]
