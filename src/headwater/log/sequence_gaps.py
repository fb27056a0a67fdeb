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

So a gap is excused for a while, and 45 is the answer where it stays; a producer without state that
does not begin with 0 may begin when it has come again for a moment, and not while a failure of ours
explains it. It is in order again when the furthest of its batches that failed, or one behind that,
was appended: an earlier one may land late, and the gap behind it is still there.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.wire.batch import MAX_SEQUENCE, Batch

REMEMBERED_SECONDS = 60.0
"""Longer than clients wait for an answer, and so longer than a batch behind a failed one takes."""
BEGIN_SECONDS = 2.0
"""How long a producer without state is asked for its first batch."""
MOST = 10_000


class _Failure(NamedTuple):
    until: float
    epoch: int
    sequence: int
    """The first of the furthest batch."""


class _Gap(NamedTuple):
    since: float
    seen: float


class SequenceGaps:
    """By stream and producer, until when a gap in the sequence is excused."""

    def __init__(self, seconds: float = REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._failures: dict[tuple[int, int], _Failure] = {}
        self._gaps: dict[tuple[int, int], _Gap] = {}

    def failed(self, stream: int, batches: Iterable[Batch]) -> None:
        """These were not appended, and their producers were told so or will ask again."""
        until = asyncio.get_running_loop().time() + self._seconds
        for batch in batches:
            if batch.producer_id < 0:
                continue
            key = stream, batch.producer_id
            known = self._failures.pop(key, None)
            if known is None or _reaches(batch, known):
                self._failures[key] = _Failure(until, batch.producer_epoch, batch.base_sequence)
            else:
                self._failures[key] = known._replace(until=until)
        _bound(self._failures)

    def excuses(self, stream: int, batch: Batch) -> bool:
        """Whether the producer of a batch that leaves a gap is to send it again."""
        key = stream, batch.producer_id
        now = asyncio.get_running_loop().time()
        gap = self._gaps.pop(key, None)
        if gap is None or now >= gap.seen + self._seconds:
            gap = _Gap(now, now)
        self._gaps[key] = gap._replace(seen=now)
        _bound(self._gaps)
        failure = self._failures.get(key)
        return now < gap.since + self._seconds or (failure is not None and now < failure.until)

    def latecomers(self) -> Mapping[int, set[int]]:
        """By stream, the producers that may begin in the middle where they have no state."""
        found: dict[int, set[int]] = {}
        if self._gaps:
            now = asyncio.get_running_loop().time()
            for key, gap in self._gaps.items():
                failure = self._failures.get(key)
                if failure is not None and now < failure.until:
                    continue
                if gap.since + BEGIN_SECONDS <= now < gap.seen + self._seconds:
                    found.setdefault(key[0], set()).add(key[1])
        return found

    def arrived(self, stream: int, batch: Batch) -> None:
        """The batch is in the log."""
        if self._failures:
            failure = self._failures.get((stream, batch.producer_id))
            if failure is not None and _reaches(batch, failure):
                del self._failures[stream, batch.producer_id]
        if self._gaps:
            self._gaps.pop((stream, batch.producer_id), None)


def _bound(entries: dict[tuple[int, int], _Failure] | dict[tuple[int, int], _Gap]) -> None:
    while len(entries) > MOST:
        del entries[next(iter(entries))]


def _reaches(batch: Batch, failure: _Failure) -> bool:
    """Whether a batch is the one that failed, or further; sequence numbers start over."""
    if batch.producer_epoch != failure.epoch:
        return batch.producer_epoch > failure.epoch
    return (batch.base_sequence - failure.sequence) % (MAX_SEQUENCE + 1) <= MAX_SEQUENCE // 2
