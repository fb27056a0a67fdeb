"""The WAL writer: batches of many connections become one flush, one object, one commit.

Group commit: a flush starts as soon as no other is running. Two rules let flushes overlap. A flush
that needs an object may upload it while the flush before it commits, and a full buffer may start
an upload while others run. On a remote store a flush starts every ``flush_interval_ms`` at the
earliest, whether or not uploads are running. Flushes commit in the order in which their buffers
were closed, and producers get their answers after the commit and its ``subscribers``.

A small flush is committed inline: its records are in the metadata transaction, and it needs no
object. This is never done for ``cheap`` topics, and for no topic while this broker's share of the
metadata store is used up (``InlineBudget``). On a remote store small appends skip the flush
interval (``flush_policy``), so that their producers wait for one commit and for no PUT.

Under load producers send again as soon as they get an answer. A flush that took only the first of
these appends would leave the others to the next flush, so that every second flush were almost
empty. So the next flush waits up to ``GATHER_SECONDS`` for as many appends as the last one had.

Invariants:

- Batches of one stream are committed in the order of ``append`` calls.
- One commit is running per incarnation (``committer``).
- Buffered bytes stay below ``buffer_bytes`` plus one request per connection, because the broker
  stops reading from sockets while there is no room (``BufferLimit``).
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
from headwater.feature_levels import SUPPORTED_LEVELS
from headwater.log.append.answers import answers_of_part, give_answers
from headwater.log.append.buffer_limit import BufferLimit
from headwater.log.append.commit import Fenced
from headwater.log.append.commit_order import end_of_turn, end_turn
from headwater.log.append.committer import CommitInDoubt, FlushCommitter
from headwater.log.append.flush_policy import InlineAdmission
from headwater.log.append.sequence_gaps import SequenceGaps
from headwater.log.append.wal_files import Section, WalFiles
from headwater.log.append.write_buffer import APPEND_BYTES, WriteBuffer
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

GATHER_SECONDS = 0.001
"""Longest time that a flush waits for producers that just got an answer."""


class LogWriter:
    """Buffers appends and makes them durable. One per incarnation."""

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
        on_unknown_outcome: Callable[[], None] = lambda: None,
        level: Callable[[], int] = lambda: SUPPORTED_LEVELS.highest,
        budget: InlineBudget | None = None,
        gaps: SequenceGaps | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._streams = streams
        self._subscribers = subscribers
        self._gaps = gaps or SequenceGaps()
        self._committer = FlushCommitter(
            meta=meta,
            incarnation=incarnation,
            producer_expiration_ms=settings.producer_expiration_ms,
            clock=clock,
            rng=rng,
            metrics=metrics,
            level=level,
            on_unknown_outcome=on_unknown_outcome,
            gaps=self._gaps,
        )
        self._loop = asyncio.get_running_loop()
        self._open = WriteBuffer()
        self.buffer_limit = BufferLimit(settings.buffer_bytes)
        self._flushes: dict[asyncio.Task[None], WriteBuffer] = {}
        """The running flushes and their buffers."""
        self._committing = asyncio.Lock()
        self._budget = budget or InlineBudget(meta.limits.inline_bytes, lambda: 1)
        self._last_commit: asyncio.Future[None] | None = None
        self._uploads = 0
        limit = meta.limits.value_bytes or 2 * settings.inline_bytes
        self._inline_bytes = min(settings.inline_bytes, limit // 2)
        self._files = WalFiles(objects, incarnation, settings.object_bytes)
        self._interval = settings.flush_interval_ms / 1000
        self._admission = InlineAdmission(self._interval, self._inline_bytes)
        self.next_flush_at = 0.0
        """Earliest start of the next flush that keeps the interval, by the event loop's clock."""
        self._expected = 1
        """Appends that the next flush waits for until ``_gather_until``."""
        self._gather_until = 0.0
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0
        self.inline_eligible_appends = 0
        self._failure: KafkaError | None = None
        self.failed = asyncio.Event()
        """Set when this incarnation was fenced: a new one must replace it."""

    def append(
        self, stream: int, batches: Sequence[Batch], *, cheap: bool = False
    ) -> asyncio.Future[Appended]:
        """Add batches to the open buffer; see ``Engine.append``.

        ``cheap`` batches are never committed inline.
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
        eligible = not cheap and not self._admission.is_busy(stream, now)
        self.inline_eligible_appends += eligible
        buffer.add(stream, batches, size, done, inline_eligible=eligible)
        self.buffer_limit.add(size + APPEND_BYTES)
        if self._timer is None:
            # Requests that arrive in one turn of the loop share a flush.
            skips_interval = self._settings.flush_interval_ms and eligible
            self._flush_at(now if skips_interval else max(now, self.next_flush_at))
        elif self._timer_at > now and (
            buffer.size >= self._settings.flush_bytes > buffer.size - size
            or buffer.count == self._expected
            or (eligible and self._may_skip_interval(now))
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
        if self._may_skip_interval(now):
            self._flush_eligible(now)
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
        buffer, self._open = self._open, WriteBuffer()
        if (
            buffer.objects_only
            and buffer.expiry is not None
            and self._fits_inline(buffer.inline_eligible_bytes, now)
        ):
            # These wait for the running inline flush to end, but not for this flush's PUT.
            self._open = buffer.take_inline_eligible()
            self._expire_at(self._open, buffer.expiry.when())
        inline = buffer.size <= self._inline_bytes and not buffer.objects_only
        inline = inline and self._budget.admits(buffer.size)
        self.next_flush_at = now + self._interval
        self._start(buffer, inline=inline)
        if not inline:
            self._admission.object_flushed(buffer.sizes, now)

    def _start(self, buffer: WriteBuffer, *, inline: bool, skips_interval: bool = False) -> None:
        before = self._last_commit
        self._last_commit = turn = self._loop.create_future()
        flush = self._flush(buffer, before, turn, inline=inline, skips_interval=skips_interval)
        task = self._loop.create_task(flush)
        self._flushes[task] = buffer
        task.add_done_callback(self._flushed)

    def _may_skip_interval(self, now: float) -> bool:
        """Whether the eligible appends of the open buffer may be flushed inline at once.

        They share no stream with a running flush, whose batches must be committed first.
        """
        if self._admission.flush_is_running:
            return False
        if not self._fits_inline(self._open.inline_eligible_bytes, now):
            return False
        eligible = self._open.batches.keys() - self._open.objects_only
        return all(eligible.isdisjoint(buffer.batches) for buffer in self._flushes.values())

    def _fits_inline(self, size: int, now: float) -> bool:
        return self._admission.has_budget(size, now) and self._budget.admits(size)

    def _flush_eligible(self, now: float) -> None:
        """Flush the eligible appends inline, without waiting for the interval."""
        buffer = self._open.take_inline_eligible()
        if not self._open.batches and self._open.expiry is not None:
            self._open.expiry.cancel()
            self._open = WriteBuffer()
        self._expire_at(buffer, now + self._settings.append_timeout_ms / 1000)
        self._admission.flush_started(buffer.size, now)
        self._start(buffer, inline=True, skips_interval=True)

    def _may_flush(self, *, full: bool) -> bool:
        if not self._flushes:
            return True
        if self._open.size <= self._inline_bytes and not self._open.objects_only:
            return False  # An inline flush would only wait for its turn to commit.
        # If an interval already limits the PUTs, a slow PUT does not delay the next flush.
        overlap = full or self._settings.flush_interval_ms > 0
        return self._uploads < (self._settings.uploads if overlap else 1)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        del self._flushes[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A flush failed unexpectedly", exc_info=error)
        self._maybe_flush()

    async def _flush(
        self,
        buffer: WriteBuffer,
        before: asyncio.Future[None] | None,
        turn: asyncio.Future[None],
        *,
        inline: bool,
        skips_interval: bool,
    ) -> None:
        """Write and commit a buffer.

        A flush that ``skips_interval`` does not wait for the flushes before it, because it shares
        no stream with them. Until the commit begins nothing of a flush can become visible; see
        ``Engine.append``.
        """
        unexpected: KafkaError = KafkaStorageError("the broker failed to write; see its log")
        try:
            chunks = [
                join_batches(stream, buffer.batches[stream]) for stream in sorted(buffer.batches)
            ]
            written = (None, []) if inline else await self._upload(chunks)
            if before is not None and not before.done() and not skips_interval:
                await end_of_turn(before)
            async with self._committing:
                unexpected = RequestTimedOut("the broker failed to commit; the batch may land")
                await self._commit(buffer, chunks, written)
            self._landed(buffer, skips_interval=skips_interval)
        except Fenced as error:
            self._fail_all(error)
        except CommitInDoubt as error:
            logger.warning(
                "The outcome of a commit is unknown",
                extra={"bytes": buffer.size, "error": error},
            )
            self._fail(buffer, RequestTimedOut(f"{error}; the batch may land"))
            if isinstance(error.__cause__, Fenced):
                self._fail_all(error.__cause__)
        except StoreError as error:
            logger.warning("A flush failed", extra={"bytes": buffer.size, "error": error})
            self._fail(buffer, KafkaStorageError(str(error)))
        except asyncio.CancelledError:
            self._fail(buffer, RequestTimedOut("the broker is stopping"))
            raise
        finally:
            if skips_interval:
                self._admission.flush_ended()
            if buffer.expiry is not None:
                buffer.expiry.cancel()
            self._fail(buffer, unexpected)
            end_turn(before, turn)
            self.buffer_limit.remove(buffer.memory)

    async def _commit(
        self,
        buffer: WriteBuffer,
        chunks: Sequence[Chunk],
        written: tuple[Section | None, list[Placement]],
    ) -> None:
        """Commit the parts one after another, and answer the appends of each."""
        section, placements = written
        async for part, outcome in self._committer.commit(chunks, placements, section):
            if isinstance(outcome, TransactionTooLarge):
                refused = [chunk.stream for chunk in part.chunks]
                logger.error(
                    "The metadata of a partition is too large to commit",
                    extra={"streams": refused, "error": outcome},
                )
                self._fail(buffer, KafkaStorageError(str(outcome)), refused)
                continue
            for subscriber in self._subscribers:
                subscriber.part_committed(outcome)
            give_answers(answers_of_part(outcome, self._streams, buffer.pending, self._gaps))

    def _landed(self, buffer: WriteBuffer, *, skips_interval: bool) -> None:
        self._metrics.flushes.inc()
        self._metrics.flush_bytes.observe(buffer.size)
        if not skips_interval:
            self._expected = buffer.count + self._open.count
            self._gather_until = self._loop.time() + GATHER_SECONDS

    async def _upload(self, chunks: Sequence[Chunk]) -> tuple[Section | None, list[Placement]]:
        parts, placements = encode_section(chunks, self._clock.now_ms())
        self._uploads += 1
        try:
            return await self._files.write(parts), placements
        finally:
            self._uploads -= 1
            self._maybe_flush()

    def _expire_at(self, buffer: WriteBuffer, when: float) -> None:
        buffer.expiry = self._loop.call_at(when, self._expire, buffer)

    def _expire(self, buffer: WriteBuffer) -> None:
        late = "the object store or the metadata store did not answer in time"
        if buffer is self._open:
            self._drop_open(RequestTimedOut(late))
        else:
            self._fail(buffer, RequestTimedOut(f"{late}; the batch may still land"))

    def _drop_open(self, error: KafkaError) -> None:
        """Fail the appends of the open buffer: nothing of them was written anywhere."""
        buffer, self._open = self._open, WriteBuffer()
        if buffer.expiry is not None:
            buffer.expiry.cancel()
        self._fail(buffer, error)
        self.buffer_limit.remove(buffer.memory)

    def _fail(
        self, buffer: WriteBuffer, error: KafkaError, streams: Collection[int] | None = None
    ) -> None:
        """Fail the pending appends of these streams, or of all streams."""
        for stream in buffer.pending if streams is None else streams:
            left = [one for one in buffer.pending[stream] if not one.done.done()]
            for one in left:
                one.done.set_exception(error)
            if left:
                self._gaps.failed(stream, buffer.batches[stream])

    def fence_noticed(self, error: Fenced) -> None:
        """A merge was fenced. Pending appends fail when they commit, so none overtakes them."""
        if not self._open.batches and not self._flushes:
            self._fail_all(error)

    def _fail_all(self, error: KafkaError) -> None:
        """Fail all appends, pending and later: this incarnation may no longer write.

        Running flushes fail now and not when their uploads end, because the batches after them go
        to the next incarnation.
        """
        self._failure = error
        self.failed.set()
        for buffer in self._flushes.values():
            self._fail(buffer, error)
        self._drop_open(error)
        self.buffer_limit.open()

    async def close(self) -> None:
        """Flush the buffered appends within the append timeout, then refuse all others."""
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
