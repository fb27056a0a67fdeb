"""The WAL writer: batches of many connections become one flush, one object, one commit.

Group commit: a flush starts as soon as none is under way. One that is large enough for an object
starts as soon as no upload is, so that it is written while the one before it commits, and a full
buffer does not wait for that either; on a paid store every ``flush_interval_ms``, also while
uploads are under way. Commits keep the order in which buffers were cut. Producers are
answered after the commit and its ``subscribers``, never before.

A small flush travels inside its commit, unless its topics are ``cheap`` or the metadata store's
share is used up. On a paid store such a flush waits neither for the interval nor for an upload of
other streams, so that its producers wait for one commit and no PUT (``early``).

Under load producers send again as soon as they are answered. A flush that took the first of them
alone would leave the others to the next, and every second flush would be almost empty. So after a
flush the next one gathers for a moment, until as many appends are there as were just answered.

Invariants:

- Batches of one stream are committed in the order of ``append`` calls.
- One commit is under way per incarnation (``committer``).
- Bytes taken in and not yet committed, and those that each append takes besides, stay below
  ``buffer_bytes`` plus one request's worth per connection, because sockets are not read while
  there is no room.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence

from headwater.clock import Clock
from headwater.engine import Appended
from headwater.errors import (
    KafkaError,
    KafkaStorageError,
    RequestTimedOut,
    StoreError,
    TransactionTooLarge,
)
from headwater.feature_levels import SPOKEN
from headwater.log.append.commit import Fenced
from headwater.log.append.committer import CommitInDoubt, Committer
from headwater.log.append.early import Early
from headwater.log.append.held import Held
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.append.turns import end_of, pass_turn
from headwater.log.append.verdicts import give, settle_part
from headwater.log.append.wal_files import Section, WalFiles
from headwater.log.append.write_buffer import APPEND_BYTES, Buffer
from headwater.log.commit_subscribers import CommitSubscriber
from headwater.log.formats.wal_object import Chunk, Placement, encode_section, join_batches
from headwater.log.merge.inline_budget import InlineBudget
from headwater.log.read.streams import Streams
from headwater.log.settings import LogSettings
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.telemetry.metrics import Metrics
from headwater.wire.batches.batch import Batch

logger = logging.getLogger(__name__)

GATHER = 0.001
"""Seconds that a flush waits at most for the producers that were just answered."""


class Writer:
    """Takes batches in and makes them durable. One per incarnation."""

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        incarnation: str,
        settings: LogSettings,
        clock: Clock,
        rng: random.Random,
        metrics: Metrics,
        streams: Streams,
        subscribers: Sequence[CommitSubscriber],
        doubted: Callable[[], None] = lambda: None,
        level: Callable[[], int] = lambda: SPOKEN.highest,
        budget: InlineBudget | None = None,
        gaps: SequenceGaps | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._streams = streams
        self._subscribers = subscribers
        self._gaps = gaps or SequenceGaps()
        self._committer = Committer(
            meta=meta,
            incarnation=incarnation,
            producer_expiration_ms=settings.producer_expiration_ms,
            clock=clock,
            rng=rng,
            metrics=metrics,
            level=level,
            doubted=doubted,
            gaps=self._gaps,
        )
        self._loop = asyncio.get_running_loop()
        self._open = Buffer()
        self.held = Held(settings.buffer_bytes)
        self._flushes: dict[asyncio.Task[None], Buffer] = {}
        """The flushes under way, and what is in each."""
        self._committing = asyncio.Lock()
        self._budget = budget or InlineBudget(meta.limits.inline_bytes, lambda: 1)
        self._last_commit: asyncio.Future[None] | None = None
        self._uploads = 0
        limit = meta.limits.value_bytes or 2 * settings.inline_bytes
        self._inline_bytes = min(settings.inline_bytes, limit // 2)
        self._files = WalFiles(objects, incarnation, settings.object_bytes)
        self._interval = settings.flush_interval_ms / 1000
        self._early = Early(self._interval, self._inline_bytes)
        self.next_flush_at = 0.0
        """The next flush that does not go early begins no sooner, by the event loop's clock."""
        self._expected = 1
        """How many appends the next flush may find if it waits until ``_gather_until``."""
        self._gather_until = 0.0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self.inline_eligible_appends = 0
        self._failure: KafkaError | None = None
        self.failed = asyncio.Event()
        """Set when this incarnation was fenced: a new one has to take its place."""

    def append(
        self, stream: int, batches: Sequence[Batch], *, cheap: bool = False
    ) -> asyncio.Future[Appended]:
        """Add batches to the open buffer; see ``Engine.append``.

        ``cheap`` ones never travel inside a metadata transaction.
        """
        done: asyncio.Future[Appended] = self._loop.create_future()
        if self._failure is not None:
            self._gaps.failed(stream, batches)
            done.set_exception(self._failure)
            return done
        buffer = self._open
        now = self._loop.time()
        if buffer.expiry is None:
            self._expire_at(buffer, now + self._settings.append_timeout_ms / 1000)
        size = sum([len(batch.data) for batch in batches])
        cheap = cheap or self._early.is_busy(stream, now)
        self.inline_eligible_appends += not cheap
        buffer.add(stream, batches, size, done, cheap=cheap)
        self.held.take(size + APPEND_BYTES)
        if self._timer is None:
            # Requests that arrived in one turn of the loop share a flush.
            early = self._settings.flush_interval_ms and not cheap
            self._flush_at(now if early else max(now, self.next_flush_at))
        elif self._timer_at > now and (
            buffer.size >= self._settings.flush_bytes > buffer.size - size
            or buffer.count == self._expected
            or (not cheap and self._may_go_early(now))
        ):
            self._timer.cancel()
            self._flush_at(now)
        return done

    def _flush_at(self, when: float) -> None:
        self._timer = self._loop.call_at(when, self._maybe_flush)
        self._timer_at = when

    def _maybe_flush(self) -> None:
        self._timer = None
        if not self._open.batches or self._failure is not None:
            return
        now = self._loop.time()
        if self._may_go_early(now):
            self._go_early(now)
            if not self._open.batches:
                return
        full = self._open.size >= self._settings.flush_bytes
        if not self._may_flush(full=full):
            return
        if now < self.next_flush_at and not full:
            self._flush_at(self.next_flush_at)
            return
        if now < self._gather_until and not full and self._open.count < self._expected:
            self._flush_at(self._gather_until)
            return
        buffer, self._open = self._open, Buffer()
        if buffer.cheap and buffer.expiry is not None and self._has_room(buffer.low_size, now):
            self._open = buffer.without_cheap()  # it waits for an early flush, and not for a PUT
            self._expire_at(self._open, buffer.expiry.when())
        inline = buffer.size <= self._inline_bytes and not buffer.cheap
        inline = inline and self._budget.admits(buffer.size)
        self.next_flush_at = now + self._interval
        self._start(buffer, inline=inline)
        if not inline:
            self._early.filled(buffer.sizes, now)

    def _start(self, buffer: Buffer, *, inline: bool, early: bool = False) -> None:
        before = self._last_commit
        self._last_commit = turn = self._loop.create_future()
        flush = self._flush(buffer, before, turn, inline=inline, early=early)
        task = self._loop.create_task(flush)
        self._flushes[task] = buffer
        task.add_done_callback(self._flushed)

    def _may_go_early(self, now: float) -> bool:
        """Whether what may travel in a commit need wait for nothing, on a paid store."""
        if self._early.under_way or not self._has_room(self._open.low_size, now):
            return False
        low = self._open.batches.keys() - self._open.cheap
        return all(low.isdisjoint(buffer.batches) for buffer in self._flushes.values())

    def _has_room(self, size: int, now: float) -> bool:
        return self._early.has_room(size, now) and self._budget.admits(size)

    def _go_early(self, now: float) -> None:
        buffer = self._open.without_cheap()
        if not self._open.batches and self._open.expiry is not None:
            self._open.expiry.cancel()
            self._open = Buffer()
        self._expire_at(buffer, now + self._settings.append_timeout_ms / 1000)
        self._early.begins(buffer.size, now)
        self._start(buffer, inline=True, early=True)

    def _may_flush(self, *, full: bool) -> bool:
        if not self._flushes:
            return True
        if self._open.size <= self._inline_bytes and not self._open.cheap:
            return False  # it would only wait for its turn to commit: better gather more
        # Where the time between flushes bounds the PUTs, a slow one need not hold up the next.
        overlap = full or self._settings.flush_interval_ms > 0
        return self._uploads < (self._settings.uploads if overlap else 1)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        del self._flushes[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a flush failed unexpectedly", exc_info=error)
        self._maybe_flush()

    async def _flush(
        self,
        buffer: Buffer,
        before: asyncio.Future[None] | None,
        turn: asyncio.Future[None],
        *,
        inline: bool,
        early: bool,
    ) -> None:
        """Write and commit. An ``early`` one shares no stream with those ahead of it.

        Before the commit is begun, nothing of a flush can be visible; see ``Engine.append``.
        """
        unexpected: KafkaError = KafkaStorageError("the broker failed to write; see its log")
        try:
            chunks = [
                join_batches(stream, buffer.batches[stream]) for stream in sorted(buffer.batches)
            ]
            written = (None, []) if inline else await self._upload(chunks)
            if before is not None and not before.done() and not early:
                await end_of(before)
            async with self._committing:
                unexpected = RequestTimedOut("the broker failed to commit; the batch may land")
                await self._commit(buffer, chunks, written)
            self._landed(buffer, early=early)
        except Fenced as error:
            self._fail_all(error)
        except CommitInDoubt as error:
            logger.warning("a commit of %d bytes is in doubt: %s", buffer.size, error)
            self._fail(buffer, RequestTimedOut(f"{error}; the batch may land"))
            if isinstance(error.__cause__, Fenced):
                self._fail_all(error.__cause__)
        except StoreError as error:
            logger.warning("a flush of %d bytes failed: %s", buffer.size, error)
            self._fail(buffer, KafkaStorageError(str(error)))
        except asyncio.CancelledError:
            self._fail(buffer, RequestTimedOut("the broker is stopping"))
            raise
        finally:
            if early:
                self._early.ended()
            if buffer.expiry is not None:
                buffer.expiry.cancel()
            self._fail(buffer, unexpected)
            pass_turn(before, turn)
            self.held.let_go(buffer.memory)

    async def _commit(
        self,
        buffer: Buffer,
        chunks: Sequence[Chunk],
        written: tuple[Section | None, list[Placement]],
    ) -> None:
        """Commit part by part, and answer what each of them settles."""
        section, placements = written
        async for part, outcome in self._committer.commit(chunks, placements, section):
            if isinstance(outcome, TransactionTooLarge):
                logger.error("a partition's records cannot be committed: %s", outcome)
                refused = [chunk.stream for chunk in part.chunks]
                self._fail(buffer, KafkaStorageError(str(outcome)), refused)
                continue
            for subscriber in self._subscribers:
                subscriber.part_committed(outcome)
            give(settle_part(outcome, self._streams, buffer.waiting, self._gaps))

    def _landed(self, buffer: Buffer, *, early: bool) -> None:
        self._metrics.flushes.inc()
        self._metrics.flush_bytes.observe(buffer.size)
        if not early:
            self._expected = buffer.count + self._open.count
            self._gather_until = self._loop.time() + GATHER

    async def _upload(self, chunks: Sequence[Chunk]) -> tuple[Section | None, list[Placement]]:
        parts, placements = encode_section(chunks, self._clock.now_ms())
        self._uploads += 1
        try:
            return await self._files.write(parts), placements
        finally:
            self._uploads -= 1
            self._maybe_flush()

    def _expire_at(self, buffer: Buffer, when: float) -> None:
        buffer.expiry = self._loop.call_at(when, self._expire, buffer)

    def _expire(self, buffer: Buffer) -> None:
        late = "the stores did not answer in time"
        if buffer is self._open:
            self._drop_open(RequestTimedOut(late))
        else:
            self._fail(buffer, RequestTimedOut(f"{late}; the batch may still land"))

    def _drop_open(self, error: KafkaError) -> None:
        """Give up what waits for a flush: none of it was written anywhere."""
        buffer, self._open = self._open, Buffer()
        if buffer.expiry is not None:
            buffer.expiry.cancel()
        self._fail(buffer, error)
        self.held.let_go(buffer.memory)

    def _fail(
        self, buffer: Buffer, error: KafkaError, streams: Collection[int] | None = None
    ) -> None:
        """Answer what has no answer yet, of these streams or of all."""
        for stream in buffer.waiting if streams is None else streams:
            left = [one for one in buffer.waiting[stream] if not one.done.done()]
            for one in left:
                one.done.set_exception(error)
            if left:
                self._gaps.failed(stream, buffer.batches[stream])

    def _fail_all(self, error: KafkaError) -> None:
        """Refuse everything from here on: this incarnation may no longer write.

        What is under way is refused now, and not when its upload ends: the batches behind it go
        to the next incarnation.
        """
        self._failure = error
        self.failed.set()
        for buffer in self._flushes.values():
            self._fail(buffer, error)
        self._drop_open(error)
        self.held.let_all_in()

    async def close(self) -> None:
        """Flush what is buffered while a producer would wait for it, then refuse everything."""
        until = self._loop.time() + self._settings.append_timeout_ms / 1000
        while (self._open.batches or self._flushes) and (left := until - self._loop.time()) > 0:
            self.next_flush_at = 0.0
            self._maybe_flush()
            if self._flushes:
                await asyncio.wait(set(self._flushes), timeout=left)
        stopping = RequestTimedOut("the broker is stopping")
        self._failure = self._failure or stopping
        flushes = list(self._flushes)
        for flush in flushes:
            flush.cancel()
        await asyncio.gather(*flushes, return_exceptions=True)
        self._drop_open(stopping)
        await self._files.close()
