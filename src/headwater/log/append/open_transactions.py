"""The rules of transactions on one stream: which are open, and where stable records end.

The first transactional batch of a producer opens its transaction on the stream; that batch's
offset is the producer's ``transaction_start``. A marker closes it. The rules are Kafka's own
(``ProducerAppendInfo``, ``ProducerStateManager``):

- While a producer's transaction is open, its other batches are refused (48).
- A marker is refused if its epoch is older than the producer's (47), or if its coordinator's
  epoch is older than that of the last marker (52).
- A marker of a newer epoch takes the producer to that epoch, which begins with sequence 0.
- A marker of a producer without an open transaction is appended and ends nothing: its coordinator
  sent it again because it had no answer.

Invariants of a tail:

- Its last stable offset is the lowest ``transaction_start``, or the high watermark if no
  transaction is open. So it is never above the high watermark, and equals it exactly if no
  transaction is open.
- It never goes back, because a transaction opens at the high watermark.

At feature level 2 no transaction opens, because the Produce handler refuses transactional batches
(48) and control batches (87). To accept them, a higher level is needed (``feature_levels``),
because a release without these rules sets the last stable offset to the high watermark with each
append, reads it from ``StreamCommit.end``, and judges a marker by its sequence. Three things are
missing below the handler. ``commit`` stores no aborted ranges. Compaction does not drop aborted
records. A restore (``recovery``) recognises copies of a batch by sequences, which markers do not
have, and drops the open transaction of a producer that begins anew.
"""

from dataclasses import dataclass
from typing import Protocol

from headwater.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    KafkaError,
    TransactionCoordinatorFenced,
)
from headwater.log.formats.metadata_values import ProducerState, Tail
from headwater.wire.batches.markers import Marker, MarkerType

NO_TRANSACTION = -1


@dataclass(frozen=True, slots=True)
class AbortedRange:
    """An aborted transaction: the producer's transactional records in ``[start, end)``."""

    producer_id: int
    start: int
    end: int
    """The marker's offset."""


class ControlBatch(Protocol):
    """The fields of a control batch that the rules use."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def marker(self) -> Marker | None: ...


def last_stable_offset(tail: Tail) -> int:
    """Where stable records end, by the producers' open transactions."""
    starts = (state.transaction_start for state in tail.producers.values() if is_open(state))
    return min(starts, default=tail.high_watermark)


def is_open(state: ProducerState) -> bool:
    return state.transaction_start != NO_TRANSACTION


def open_transaction(state: ProducerState, offset: int) -> None:
    """A transactional batch was appended at ``offset``: it opens a transaction or continues one."""
    if not is_open(state):
        state.transaction_start = offset


def refusal(state: ProducerState | None, batch: ControlBatch) -> type[KafkaError] | None:
    """Why a control batch may not be appended; None if it may. ``state`` is its producer's."""
    if batch.marker is None:
        return InvalidRecord
    if state is None:
        return None
    if batch.producer_epoch < state.epoch:
        return InvalidProducerEpoch
    if batch.marker.coordinator_epoch < state.coordinator_epoch:
        return TransactionCoordinatorFenced
    return None


def end_transaction(
    producers: dict[int, ProducerState], batch: ControlBatch, offset: int, now_ms: int
) -> AbortedRange | None:
    """A valid marker was appended at ``offset``: close its producer's transaction.

    Returns the aborted range; None if there was no transaction, or it was committed.
    """
    marker = batch.marker
    assert marker is not None
    state = producers.pop(batch.producer_id, None)
    if state is None:
        state = ProducerState(batch.producer_epoch, now_ms, [])
    elif batch.producer_epoch > state.epoch:
        state.epoch = batch.producer_epoch
        state.batches = []
    producers[batch.producer_id] = state  # moved to the end: it wrote last
    start, state.transaction_start = state.transaction_start, NO_TRANSACTION
    state.coordinator_epoch = marker.coordinator_epoch
    state.seen_ms = now_ms
    if start == NO_TRANSACTION or marker.type is not MarkerType.ABORT:
        return None
    return AbortedRange(batch.producer_id, start, offset)
