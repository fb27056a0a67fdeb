"""Batches of idempotent producers whose sequence does not follow the last one.

A producer has several batches in flight, and may send unanswered ones again through another broker.
So a batch may arrive before the batch in front of it: that one failed here a moment ago, or it is
still in flight, here or elsewhere. Two things must not happen then:

- A wrong 45 (OUT_OF_ORDER_SEQUENCE_NUMBER). librdkafka reacts to 45 with a new epoch and sends all
  unanswered batches of every partition again. A batch whose answer was lost, or that arrives late
  at another broker, would be in the log twice. After a retriable error it keeps the epoch, and the
  sequence numbers reveal the duplicate.
- A wrong first batch. If the producer has no state here, the batch would be accepted as its first
  one. librdkafka takes an answer for one batch as proof that all batches before it arrived, and
  would report the batch in front as delivered.

So a gap gets a retriable error for a while, and 45 only if the same sequence stays missing. A batch
below the expected sequence leaves no gap and gets 45 at once, as in Kafka.

A producer without state is asked again for ``BEGIN_SECONDS``. Then it may begin with the lowest
batch that it has sent since, and with no other, unless an earlier batch failed here.

A producer's failures are over when its highest failed batch, or a later one, was appended. An
earlier batch is not enough: it may arrive late while the gap after it still exists.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.log.append.judge import SequencePosition
from headwater.log.formats.wal_object import Chunk
from headwater.wire.batches.batch import MAX_SEQUENCE, Batch

REMEMBERED_SECONDS = 60.0
"""Longer than clients wait for an answer, so every batch sent after a failed one has arrived."""
BEGIN_SECONDS = 0.2
"""How long a producer without state is asked again for an earlier batch. A client with an earlier
batch sends it within this time. Sarama gives up after 0.3 s."""
MAX_REMEMBERED = 10_000
"""Failures, gaps and new producers, each. Beyond this number the oldest is forgotten."""

Key = tuple[int, int]
"""A stream and a producer."""


class _Failure(NamedTuple):
    until: float
    lowest: SequencePosition
    highest: SequencePosition
    """The lowest and highest failed batch, by first sequence."""


class _Gap(NamedTuple):
    place: SequencePosition
    """The missing sequence; of a producer without state, the lowest batch that it sent."""
    since: float
    seen: float


class SequenceGaps:
    """Remembers failed batches, gaps and new producers, by stream and producer."""

    def __init__(self, seconds: float = REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._failures: dict[Key, _Failure] = {}
        self._gaps: dict[Key, _Gap] = {}
        self._new_producers: dict[Key, _Gap] = {}

    def failed(self, stream: int, batches: Iterable[Batch]) -> None:
        """These batches were not appended, and their producers know it or will send them again."""
        until = asyncio.get_running_loop().time() + self._seconds
        for batch in batches:
            if batch.producer_id < 0 or batch.is_control:
                continue
            key, place = (stream, batch.producer_id), _place(batch)
            known = self._failures.pop(key, None)
            lowest = highest = place
            if known is not None:
                same_epoch = known.lowest[0] == place[0]
                lowest = known.lowest if same_epoch and _reaches(place, known.lowest) else place
                highest = place if _reaches(place, known.highest) else known.highest
            self._failures[key] = _Failure(until, lowest, highest)
        while len(self._failures) > MAX_REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def is_retriable(self, stream: int, batch: Batch, expected: int) -> bool:
        """Whether a batch that was refused with 45 gets a retriable error instead.

        ``expected`` is the missing sequence; negative if the producer has no state.
        """
        key, place = (stream, batch.producer_id), _place(batch)
        if expected >= 0 and not _reaches(place, (place[0], expected)):
            return False  # It is below: no later batch can make it follow.
        now = asyncio.get_running_loop().time()
        if expected < 0:
            known = self._new_producers.get(key)
            if known is not None and known.place[0] == place[0] and _reaches(place, known.place):
                place = known.place
            self._note(self._new_producers, key, place, now)
            return True
        since = self._note(self._gaps, key, (place[0], expected), now)
        failure = self._failures.get(key)
        return now < since + self._seconds or (failure is not None and now < failure.until)

    def _note(self, gaps: dict[Key, _Gap], key: Key, place: SequencePosition, now: float) -> float:
        """Remember a gap; returns since when this sequence has been missing."""
        while gaps and now >= (oldest := next(iter(gaps.items())))[1].seen + self._seconds:
            del gaps[oldest[0]]
        known = gaps.pop(key, None)
        since = known.since if known is not None and known.place == place else now
        gaps[key] = _Gap(place, since, now)
        if len(gaps) > MAX_REMEMBERED:
            del gaps[next(iter(gaps))]
        return since

    def accepted_starts(
        self, chunks: Iterable[Chunk]
    ) -> Mapping[int, Mapping[int, SequencePosition]]:
        """By stream and producer, the batch with which a producer without state may begin.

        Only the producers of ``chunks`` are looked at, to keep the cost small.
        """
        found: dict[int, dict[int, SequencePosition]] = {}
        if not self._new_producers:
            return found
        now = asyncio.get_running_loop().time()
        for chunk in chunks:
            for producer in {batch.producer_id for batch in chunk.batches}:
                key = chunk.stream, producer
                gap = self._new_producers.get(key)
                if gap is None:
                    continue
                waited = gap.since + BEGIN_SECONDS <= now < gap.seen + self._seconds
                if waited and not self._follows_a_failure(key, gap.place, now):
                    found.setdefault(chunk.stream, {})[producer] = gap.place
        return found

    def _follows_a_failure(self, key: Key, place: SequencePosition, now: float) -> bool:
        failure = self._failures.get(key)
        return failure is not None and now < failure.until and place != failure.lowest

    @property
    def any(self) -> bool:
        """Whether anything is remembered that ``arrived`` could end."""
        return bool(self._failures or self._gaps or self._new_producers)

    def arrived(self, stream: int, batch: Batch) -> None:
        """The batch was appended, now or earlier."""
        if batch.is_control:
            return  # A marker has no sequence.
        key = stream, batch.producer_id
        if self._failures:
            failure = self._failures.get(key)
            if failure is not None and _reaches(_place(batch), failure.highest):
                del self._failures[key]
        if self._gaps:
            self._gaps.pop(key, None)
        if self._new_producers:
            self._new_producers.pop(key, None)


def _place(batch: Batch) -> SequencePosition:
    return batch.producer_epoch, batch.base_sequence


def _reaches(place: SequencePosition, other: SequencePosition) -> bool:
    """Whether a batch is the other one or comes after it; sequence numbers wrap around."""
    if place[0] != other[0]:
        return place[0] > other[0]
    return (place[1] - other[1]) % (MAX_SEQUENCE + 1) <= MAX_SEQUENCE // 2
