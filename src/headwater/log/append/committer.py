"""The numbered transactions of one incarnation, one after another.

Invariants:

- A transaction runs again until its outcome is known. So at most one transaction of an incarnation
  has an unknown outcome at any time.
- Numbers grow in the order of commits. The number of a refused transaction is not used again.
"""

import asyncio
import logging
import random
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NoReturn

from headwater.clock import Clock
from headwater.errors import (
    StoreError,
    StoreGone,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.feature_levels import NOTED_SECTIONS
from headwater.log.append.commit import CommitPart, Fenced, chunks_per_part, commit_part
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.append.wal_files import Section
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import GROWING
from headwater.log.formats.wal_object import Chunk, Placement
from headwater.meta.store import MetadataStore
from headwater.retry import Backoff
from headwater.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

BACKOFF = Backoff(first=0.01, longest=1.0)
GROWTH = 8
"""After a success the next part may be larger by 1/8."""


class CommitInDoubt(UnknownOutcome):
    """Raised when an attempt may have been applied, and the store refuses to run it again.

    Its cause is the refusal: ``Fenced`` if this incarnation may not write any more.
    """


class FlushCommitter:
    """Makes flushes part of the log. The caller commits one flush at a time.

    ``on_unknown_outcome`` is called if a transaction may have been applied and its outcome stays
    unknown. The caller reports every failed batch to ``gaps`` before it begins a commit.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        incarnation: str,
        producer_expiration_ms: int,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        level: Callable[[], int],
        on_unknown_outcome: Callable[[], None],
        gaps: SequenceGaps,
    ) -> None:
        self._meta = meta
        self._incarnation = incarnation
        self._producer_expiration_ms = producer_expiration_ms
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._level = level
        self._on_unknown_outcome = on_unknown_outcome
        self._gaps = gaps
        self._max_chunks = chunks_per_part(meta.limits) or sys.maxsize
        self._part_chunks = self._max_chunks
        self._next_number = 1

    async def commit(
        self, chunks: Sequence[Chunk], placements: Sequence[Placement], section: Section | None
    ) -> AsyncIterator[tuple[CommitPart, list[CommittedChunk] | TransactionTooLarge]]:
        """Commit in as many parts as the store's transaction limits require.

        The size of a tail grows with its producers, so only the store can tell whether a part is
        too large. In that case the part is halved; after each success the parts grow again. If a
        single stream is too large, its chunk is refused and the other chunks are committed.
        """
        done = parts = 0
        while done < len(chunks):
            end = min(done + self._part_chunks, len(chunks))
            # If another part follows, the object has at least one part more.
            parts_known = parts + (1 if end == len(chunks) else 2)
            part = self._part(chunks[done:end], placements[done:end], section, parts_known, end)
            outcome: list[CommittedChunk] | TransactionTooLarge
            try:
                outcome = await self._run(part)
            except TransactionTooLarge as error:
                if end - done > 1:
                    self._part_chunks = (end - done) // 2
                    continue
                outcome = error
                if section is not None:
                    await self._run(self._part([], [], section, parts_known, end))
            else:
                grown = self._part_chunks + 1 + self._part_chunks // GROWTH
                self._part_chunks = min(grown, self._max_chunks)
            yield part, outcome
            done = end
            parts += 1

    def _part(
        self,
        chunks: Sequence[Chunk],
        placements: Sequence[Placement],
        section: Section | None,
        parts: int,
        noted: int,
    ) -> CommitPart:
        number = self._next_number
        self._next_number += 1
        return CommitPart(
            domain=0,
            incarnation=self._incarnation,
            number=number,
            chunks=chunks,
            placements=placements,
            section=section,
            part=0 if section is None else next(section.part_numbers),
            parts=GROWING if section is not None and section.grows else parts,
            noted=noted if section is not None and self._level() >= NOTED_SECTIONS else 0,
        )

    async def _run(self, part: CommitPart) -> list[CommittedChunk]:
        """Run the transaction until its outcome is known.

        Raises ``CommitInDoubt`` if the store refuses it after a lost answer. Any other error,
        ``Fenced`` included, means that no attempt was or will be applied.
        """
        loop = asyncio.get_running_loop()
        lost = False
        decide = commit_part(
            part,
            self._clock.now_ms(),
            self._producer_expiration_ms,
            self._gaps.accepted_starts(part.chunks),
        )
        pauses = BACKOFF.pauses(self._rng)
        while True:
            started = loop.time()
            try:
                outcome = (await self._meta.transact(part.domain, part.keys, decide)).result
            except UnknownOutcome as error:
                lost = True
                self._metrics.commit_unknown.inc()
                logger.warning("The answer to a commit was lost; retrying", extra={"error": error})
            except Fenced as error:
                if lost:
                    self._raise_in_doubt(error)
                raise
            except StoreError as error:
                if isinstance(error, StoreUnavailable) and not isinstance(error, StoreGone):
                    logger.warning(
                        "The metadata store is unavailable; retrying a commit",
                        extra={"error": error},
                    )
                elif lost:
                    self._raise_in_doubt(error)
                else:
                    raise
            else:
                self._metrics.commits.inc()
                self._metrics.commit_seconds.observe(loop.time() - started)
                return outcome
            await asyncio.sleep(next(pauses))

    def _raise_in_doubt(self, refusal: Exception) -> NoReturn:
        """Raise: an attempt before the refused one may have been applied, or may still be."""
        self._on_unknown_outcome()
        raise CommitInDoubt(str(refusal)) from refusal
