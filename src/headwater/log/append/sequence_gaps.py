"""Batches of idempotent producers that do not follow the last one, and whose fault that is.

A producer has several batches under way, and may send what it has no answer for through another
broker. So a batch may be here before the one in front of it: that one failed here a moment ago, or
it is still under way, here or elsewhere. Two things must not happen to such a batch:

- Answered with 45, librdkafka begins a new epoch and sends everything that it has no answer for
  under it, to every partition; what had landed unanswered, or lands late at a broker that it has
  left, is then there twice. An error that says nothing but "again" keeps the epoch, and the
  sequence numbers find the attempt.
- Where the producer has no state yet, the batch would be taken for its first. librdkafka takes an
  answer for one that all before it arrived, and would report the one in front as delivered.

So a gap is excused for a while, and 45 is the answer where the same sequence stays missing. A batch
behind the expected sequence leaves no gap: it gets 45 at once, as in Kafka. A
producer without state may begin with the foremost batch that it has sent again for a moment, and
with no other; not behind one that failed here. It is in order again when the furthest of its
batches that failed, or one behind that, was appended: an earlier one may land late, and the gap
behind it is still there.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.log.append.judge import Place
from headwater.log.formats.wal_object import Chunk
from headwater.wire.batches.batch import MAX_SEQUENCE, Batch

REMEMBERED_SECONDS = 60.0
"""Longer than clients wait for an answer, and so longer than a batch behind a failed one takes."""
BEGIN_SECONDS = 0.2
"""How long a producer without state is asked for its first batch. A client that sent another one
before it has both at hand; Sarama gives up after 0.3 s."""
MOST = 10_000
"""Of each kind; beyond that the one that was not heard of for longest is forgotten."""

Key = tuple[int, int]
"""A stream and a producer."""


class _Failure(NamedTuple):
    until: float
    foremost: Place
    furthest: Place
    """The first sequences of batches."""


class _Gap(NamedTuple):
    place: Place
    """What is missing; of a producer without state the foremost batch that came."""
    since: float
    seen: float


class SequenceGaps:
    """By stream and producer, until when a gap in the sequence is excused."""

    def __init__(self, seconds: float = REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._failures: dict[Key, _Failure] = {}
        self._gaps: dict[Key, _Gap] = {}
        self._beginners: dict[Key, _Gap] = {}

    def failed(self, stream: int, batches: Iterable[Batch]) -> None:
        """These were not appended, and their producers were told so or will ask again."""
        until = asyncio.get_running_loop().time() + self._seconds
        for batch in batches:
            if batch.producer_id < 0 or batch.is_control:
                continue
            key, place = (stream, batch.producer_id), _place(batch)
            known = self._failures.pop(key, None)
            foremost = furthest = place
            if known is not None:
                same = known.foremost[0] == place[0]
                foremost = known.foremost if same and _reaches(place, known.foremost) else place
                furthest = place if _reaches(place, known.furthest) else known.furthest
            self._failures[key] = _Failure(until, foremost, furthest)
        while len(self._failures) > MOST:
            del self._failures[next(iter(self._failures))]

    def excuses(self, stream: int, batch: Batch, expected: int) -> bool:
        """Whether the producer of a batch that leaves a gap is to send it again.

        ``expected`` is the sequence that is missing, negative where the producer has no state.
        """
        key, place = (stream, batch.producer_id), _place(batch)
        if expected >= 0 and not _reaches(place, (place[0], expected)):
            return False  # it is behind: nothing that is still to come makes it follow
        now = asyncio.get_running_loop().time()
        if expected < 0:
            known = self._beginners.get(key)
            if known is not None and known.place[0] == place[0] and _reaches(place, known.place):
                place = known.place
            self._note(self._beginners, key, place, now)
            return True
        since = self._note(self._gaps, key, (place[0], expected), now)
        failure = self._failures.get(key)
        return now < since + self._seconds or (failure is not None and now < failure.until)

    def _note(self, gaps: dict[Key, _Gap], key: Key, place: Place, now: float) -> float:
        """Remember a gap that came; since when it is this one."""
        while gaps and now >= (oldest := next(iter(gaps.items())))[1].seen + self._seconds:
            del gaps[oldest[0]]
        known = gaps.pop(key, None)
        since = known.since if known is not None and known.place == place else now
        gaps[key] = _Gap(place, since, now)
        if len(gaps) > MOST:
            del gaps[next(iter(gaps))]
        return since

    def latecomers(self, chunks: Iterable[Chunk]) -> Mapping[int, Mapping[int, Place]]:
        """By stream and producer, the batch with which one without state may begin.

        Those of the producers of ``chunks`` only, however many others wait to begin.
        """
        found: dict[int, dict[int, Place]] = {}
        if not self._beginners:
            return found
        now = asyncio.get_running_loop().time()
        for chunk in chunks:
            for producer in {batch.producer_id for batch in chunk.batches}:
                key = chunk.stream, producer
                gap = self._beginners.get(key)
                if gap is None:
                    continue
                ripe = gap.since + BEGIN_SECONDS <= now < gap.seen + self._seconds
                if ripe and not self._is_behind_a_failure(key, gap.place, now):
                    found.setdefault(chunk.stream, {})[producer] = gap.place
        return found

    def _is_behind_a_failure(self, key: Key, place: Place, now: float) -> bool:
        failure = self._failures.get(key)
        return failure is not None and now < failure.until and place != failure.foremost

    @property
    def any(self) -> bool:
        """Whether there is anything that a batch's arrival would end."""
        return bool(self._failures or self._gaps or self._beginners)

    def arrived(self, stream: int, batch: Batch) -> None:
        """The batch is in the log."""
        if batch.is_control:
            return  # it has no sequence
        key = stream, batch.producer_id
        if self._failures:
            failure = self._failures.get(key)
            if failure is not None and _reaches(_place(batch), failure.furthest):
                del self._failures[key]
        if self._gaps:
            self._gaps.pop(key, None)
        if self._beginners:
            self._beginners.pop(key, None)


def _place(batch: Batch) -> Place:
    return batch.producer_epoch, batch.base_sequence


def _reaches(place: Place, other: Place) -> bool:
    """Whether a batch is the other one, or further; sequence numbers start over."""
    if place[0] != other[0]:
        return place[0] > other[0]
    return (place[1] - other[1]) % (MAX_SEQUENCE + 1) <= MAX_SEQUENCE // 2
