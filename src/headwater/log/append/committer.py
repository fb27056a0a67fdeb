"""The numbered transactions of one incarnation, one after another.

Invariants:

- Each is run again until its outcome is known, so that at most one of them may still land.
- Numbers grow in the order of commits; one that was refused is not used again.
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
from headwater.log.append.commit import Fenced, Part, chunks_per_part, commit_part
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
"""A part that landed lets the next be larger by one of so many."""


class CommitInDoubt(UnknownOutcome):
    """Raised when an attempt of a commit may have landed and the store refuses to say.

    Its cause is the refusal; ``Fenced`` if this incarnation may not write any more.
    """


class Committer:
    """Makes flushes part of the log; the caller sees to it that one is committed at a time.

    ``doubted`` is called where a transaction may have landed and its outcome is not told.
    ``gaps`` has to know of every batch that failed before a commit begins.
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
        doubted: Callable[[], None],
        gaps: SequenceGaps,
    ) -> None:
        self._meta = meta
        self._incarnation = incarnation
        self._producer_expiration_ms = producer_expiration_ms
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._level = level
        self._doubted = doubted
        self._gaps = gaps
        self._most = chunks_per_part(meta.limits) or sys.maxsize
        self._step = self._most
        self._next_number = 1

    async def commit(
        self, chunks: Sequence[Chunk], placements: Sequence[Placement], section: Section | None
    ) -> AsyncIterator[tuple[Part, list[CommittedChunk] | TransactionTooLarge]]:
        """Commit in as many parts as the store's transactions ask for.

        How large a stream's record is, the store alone knows: it grows with its producers. A part
        that the store finds too large is halved; with every one that it takes they become larger
        again. A stream that is too large by itself is refused, and the others go on.
        """
        done = parts = 0
        while done < len(chunks):
            end = min(done + self._step, len(chunks))
            # Where one more follows, an object has at least that one more.
            parts_known = parts + (1 if end == len(chunks) else 2)
            part = self._part(chunks[done:end], placements[done:end], section, parts_known, end)
            outcome: list[CommittedChunk] | TransactionTooLarge
            try:
                outcome = await self._land(part)
            except TransactionTooLarge as error:
                if end - done > 1:
                    self._step = (end - done) // 2
                    continue
                outcome = error
                if section is not None:
                    await self._land(self._part([], [], section, parts_known, end))
            else:
                self._step = min(self._step + 1 + self._step // GROWTH, self._most)
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
    ) -> Part:
        number = self._next_number
        self._next_number += 1
        return Part(
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

    async def _land(self, part: Part) -> list[CommittedChunk]:
        """Run the transaction until its outcome is known.

        ``CommitInDoubt`` is what is left if the store refuses it after a lost answer; any other
        error, ``Fenced`` among them, says that no attempt of it landed or will.
        """
        loop = asyncio.get_running_loop()
        lost = False
        decide = commit_part(
            part,
            self._clock.now_ms(),
            self._producer_expiration_ms,
            self._gaps.latecomers(part.chunks),
        )
        pauses = BACKOFF.pauses(self._rng)
        while True:
            started = loop.time()
            try:
                outcome = (await self._meta.transact(part.domain, part.keys, decide)).result
            except UnknownOutcome as error:
                lost = True
                self._metrics.commit_unknown.inc()
                logger.warning("a commit's answer was lost, asking again: %s", error)
            except Fenced as error:
                if lost:
                    self._doubt(error)
                raise
            except StoreError as error:
                if isinstance(error, StoreUnavailable) and not isinstance(error, StoreGone):
                    logger.warning("the metadata store did not take a commit: %s", error)
                elif lost:
                    self._doubt(error)
                else:
                    raise
            else:
                self._metrics.commits.inc()
                self._metrics.commit_seconds.observe(loop.time() - started)
                return outcome
            await asyncio.sleep(next(pauses))

    def _doubt(self, refusal: Exception) -> NoReturn:
        """An attempt before the refused one may have landed, or may still: nobody was told."""
        self._doubted()
        raise CommitInDoubt(str(refusal)) from refusal
