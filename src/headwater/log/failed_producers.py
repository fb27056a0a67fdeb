"""Idempotent producers whose batches failed here a moment ago.

A producer has several batches under way. When one fails, those behind it leave a gap in its
sequence numbers and are refused as well. Answered with 45, librdkafka begins a new epoch and sends
all of them under it; and where an attempt of the first batch at another broker lands after all,
its records are there twice. An error that says nothing but "again" keeps the epoch, and the
sequence numbers find the attempt.
"""

import asyncio
from collections.abc import Iterable

from headwater.wire.batch import Batch

REMEMBERED_SECONDS = 60.0
"""Longer than clients wait for an answer, and so longer than a batch behind a failed one takes."""
MOST = 10_000


class FailedProducers:
    """By stream and producer, until when a gap in the sequence is a failure of ours."""

    def __init__(self) -> None:
        self._until: dict[tuple[int, int], float] = {}

    def failed(self, stream: int, batches: Iterable[Batch]) -> None:
        until = asyncio.get_running_loop().time() + REMEMBERED_SECONDS
        for producer in {batch.producer_id for batch in batches if batch.producer_id >= 0}:
            self._until.pop((stream, producer), None)
            self._until[stream, producer] = until
        while len(self._until) > MOST:
            del self._until[next(iter(self._until))]

    def explains(self, stream: int, batch: Batch) -> bool:
        """Whether a batch that does not follow the last one is behind one that failed."""
        until = self._until.get((stream, batch.producer_id))
        return until is not None and asyncio.get_running_loop().time() < until

    def appended(self, stream: int, batch: Batch) -> None:
        """The producer is in order again."""
        if self._until:
            self._until.pop((stream, batch.producer_id), None)
