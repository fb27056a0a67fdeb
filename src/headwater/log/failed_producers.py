"""Idempotent producers whose batches failed here a moment ago.

A producer has several batches under way. When one fails, those behind it leave a gap in its
sequence numbers and are refused as well. Two things must not happen to them:

- Answered with 45, librdkafka begins a new epoch and sends everything that it has no answer for
  under it, to every partition; what had landed unanswered, or lands late, is then there twice. An
  error that says nothing but "again" keeps the epoch, and the sequence numbers find the attempt.
- Where the producer has no state yet, the batch behind would be taken for its first. librdkafka
  takes an answer for one that all before it arrived, and would report the failed one as delivered.

A producer is in order again when the furthest of its batches that failed, or one behind that, was
appended: an earlier one may land late, and the gap behind it is still there.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headwater.wire.batch import MAX_SEQUENCE, Batch

REMEMBERED_SECONDS = 60.0
"""Longer than clients wait for an answer, and so longer than a batch behind a failed one takes."""
MOST = 10_000


class _Failure(NamedTuple):
    until: float
    epoch: int
    sequence: int
    """The first of the furthest batch."""


class FailedProducers:
    """By stream and producer, until when a gap in the sequence is a failure of ours."""

    def __init__(self, seconds: float = REMEMBERED_SECONDS) -> None:
        self._seconds = seconds
        self._failures: dict[tuple[int, int], _Failure] = {}

    def failed(self, stream: int, batches: Iterable[Batch]) -> None:
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
        while len(self._failures) > MOST:
            del self._failures[next(iter(self._failures))]

    def explains(self, stream: int, batch: Batch) -> bool:
        """Whether a batch that does not follow the last one is behind one that failed."""
        failure = self._failures.get((stream, batch.producer_id))
        return failure is not None and asyncio.get_running_loop().time() < failure.until

    def by_stream(self) -> Mapping[int, set[int]]:
        """The producers of each stream that have one."""
        found: dict[int, set[int]] = {}
        if self._failures:
            now = asyncio.get_running_loop().time()
            for (stream, producer), failure in self._failures.items():
                if now < failure.until:
                    found.setdefault(stream, set()).add(producer)
        return found

    def arrived(self, stream: int, batch: Batch) -> None:
        """The batch is in the log."""
        if self._failures:
            failure = self._failures.get((stream, batch.producer_id))
            if failure is not None and _reaches(batch, failure):
                del self._failures[stream, batch.producer_id]


def _reaches(batch: Batch, failure: _Failure) -> bool:
    """Whether a batch is the one that failed, or further; sequence numbers start over."""
    if batch.producer_epoch != failure.epoch:
        return batch.producer_epoch > failure.epoch
    return (batch.base_sequence - failure.sequence) % (MAX_SEQUENCE + 1) <= MAX_SEQUENCE // 2
