"""Merges small entries of streams: plan, read, write one object, swap."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import attrgetter

from headwater.clock import Clock
from headwater.errors import CorruptMessage, KafkaError, StoreError
from headwater.log.append.commit import Fenced
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry, Layout
from headwater.log.formats.wal_object import Chunk, concatenate_chunks, encode_section
from headwater.log.jobs.jobs import Job
from headwater.log.merge.inline_budget import InlineBudget
from headwater.log.merge.plans import (
    MergePlan,
    divide_by_object,
    divide_by_read,
    extend_backwards,
    in_step,
)
from headwater.log.merge.rank import (
    RUN_ENTRIES,
    MergedRun,
    MergeSwap,
    close_part,
    divide_by_transaction,
    inline_size,
    mergeable,
    plan_merge,
    plan_relief,
    swap_runs,
)
from headwater.log.merge.rounds import NO_COUNTS, MergeCounts
from headwater.log.read.index import IndexReader
from headwater.log.read.piece_loader import PieceLoader, StoredBatches
from headwater.log.read.streams import Streams
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.transactions import transact
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

READ_OBJECTS = 4
"""Objects made from one batch of reads, all in memory, on a remote store. More need fewer GETs."""
STEP_OBJECTS, STEP_ENTRIES = 16, 65_536
"""On a remote store, the objects or small entries whose streams are merged in step."""
NEWEST = 4
"""On a remote store, the newest entries of a stream that stay: tail readers have them cached."""
MAX_FAILURES = 3
"""After this many failures in a row a merge ends, because the store itself fails."""
CONCATENATED_BYTES = 2**19
"""Bytes of a run that are concatenated in one turn of the event loop."""
PLAN_ENTRIES = 4096
"""Index entries that one plan reads, from the end of the stream: small entries are there."""


class _Failures:
    """Counts failures in a row."""

    def __init__(self) -> None:
        self._in_a_row = 0

    @contextmanager
    def tolerated(self, step: str) -> Iterator[None]:
        """Log an error of ``step``; raises only the last one of ``MAX_FAILURES`` in a row."""
        try:
            yield
        except (StoreError, KafkaError) as error:
            self._in_a_row += 1
            if self._in_a_row == MAX_FAILURES:
                raise
            logger.warning(
                "Streams are not merged in this round", extra={"step": step, "error": error}
            )
        else:
            self._in_a_row = 0


_Read = tuple[list[StoredBatches], MergePlan]
"""The chunks of a run, and its plan."""


class Merger:
    """Merges the small entries of streams. Any broker may do it; the swap's guard decides."""

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        incarnation: str,
        settings: LogSettings,
        streams: Streams,
        index: IndexReader,
        loader: PieceLoader,
        clock: Clock,
        budget: InlineBudget,
        on_fenced: Callable[[Fenced], None],
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._reclaimer = reclaimer
        self._incarnation = incarnation
        self._settings = settings
        self._streams = streams
        self._index = index
        self._loader = loader
        self._clock = clock
        self._budget = budget
        self._on_fenced = on_fenced
        self._remote = settings.flush_interval_ms > 0
        self._next_object = 0
        self._run_entries = min(RUN_ENTRIES, meta.limits.range_keys or RUN_ENTRIES)

    async def merge(
        self,
        streams: Sequence[int],
        *,
        relieve: bool = False,
        thorough: bool = False,
        counts: MergeCounts = NO_COUNTS,
    ) -> list[int]:
        """Merge the streams; returns the streams that may have more to merge at once.

        ``relieve`` moves inline entries to objects, even if a merge is not worth it, until the
        metadata store is no longer crowded. A ``thorough`` merge also looks for small entries
        before large ones. A stream that cannot be merged is left to the sweep. An error is raised
        only after ``MAX_FAILURES`` failures in a row.
        """
        enough: int | None = None
        if self._remote and not thorough:
            # Chunks of many streams and few flushes are next to each other; chunks of one stream
            # and many flushes are not. So a run ends early, unless few streams must fill an object.
            settings = self._settings
            enough = max(settings.merge_small_bytes, settings.merge_bytes // max(1, len(streams)))
        again: list[int] = []
        plans = (
            self._plan(stream, enough, relieve=relieve, thorough=thorough) for stream in streams
        )
        reads, swaps = _Failures(), _Failures()
        step = enough is not None and not relieve
        async for window in self._windows(plans, counts, step=step):
            unmerged = {planned.stream: planned for planned in window}
            try:
                async for merged in self._merged(window, reads, swaps, step=step):
                    for stream in merged:
                        planned = unmerged.pop(stream)
                        _report(counts.taken, planned, without=planned.later)
                        if relieve or self._more(planned):
                            again.append(stream)
                    if relieve and not self._budget.crowded():
                        return again
            finally:
                for planned in unmerged.values():
                    _report(counts.taken, planned)
        return again

    async def _merged(
        self,
        window: Sequence[MergePlan],
        reads: _Failures,
        swaps: _Failures,
        *,
        step: bool,
    ) -> AsyncIterator[list[int]]:
        """Merge the plans object by object; yields the streams of each object."""
        size = self._settings.merge_bytes
        for part in divide_by_read(window, READ_OBJECTS * size) if step else [window]:
            read: list[_Read] = []
            with reads.tolerated("read"):
                read = await self._read(part)
            for group in divide_by_object(read, [planned.weight(size) for _, planned in read]):
                merged: list[int] = []
                with swaps.tolerated("swap"):
                    merged = await self._merge_group(group)
                yield merged

    def _more(self, planned: MergePlan) -> bool:
        """Whether the stream has more to merge at once."""
        fan_in = self._settings.merge_fan_in
        small = planned.size < self._settings.merge_small_bytes
        if self._remote:
            # Entries after the run wait for the next round, with those of other streams.
            return small and len(planned.earlier) + 1 >= fan_in
        return small or len(planned.later) >= fan_in

    async def measure(self, stream: int) -> None:
        """Count the stream's inline bytes again."""
        stored = await self._meta.get(keys.layout(0, stream))
        log_start = 0 if stored is None else decode(Layout, stored.value).log_start
        await self._newest(stream, log_start, thorough=False)

    async def _windows(
        self, plans: Iterable[Awaitable[MergePlan]], counts: MergeCounts, *, step: bool
    ) -> AsyncIterator[list[MergePlan]]:
        """The plans, in groups that are merged in step, or that make an object."""
        objects = STEP_OBJECTS if step else 1
        failures = _Failures()
        window: list[MergePlan] = []
        weight, entries, began_ms = 0.0, 0, self._clock.now_ms()
        for plan in plans:
            planned: MergePlan | None = None
            with failures.tolerated("plan"):
                planned = await plan
            if planned is None or not planned.run:
                continue
            _report(counts.found, planned)
            window.append(planned)
            weight += planned.weight(self._settings.merge_bytes)
            entries += len(planned.small)
            if weight >= objects or entries >= STEP_ENTRIES:
                yield self._adjusted(window, began_ms, step=step)
                window, weight, entries, began_ms = [], 0.0, 0, self._clock.now_ms()
        if window:
            yield self._adjusted(window, began_ms, step=step)

    def _adjusted(self, window: list[MergePlan], began_ms: int, *, step: bool) -> list[MergePlan]:
        """The plans of a group, adjusted to each other."""
        settings = self._settings
        if step:
            window = in_step(
                window,
                by_ms=began_ms - NEWEST * settings.flush_interval_ms,
                fan_in=settings.merge_fan_in,
                max_bytes=settings.merge_bytes,
                max_entries=self._run_entries,
            )
        return [
            extend_backwards(
                planned,
                small_bytes=settings.merge_small_bytes,
                max_bytes=settings.merge_bytes,
                max_entries=self._run_entries,
            )
            for planned in window
        ]

    async def _plan(
        self,
        stream: int,
        enough_bytes: int | None = None,
        *,
        relieve: bool = False,
        thorough: bool = False,
    ) -> MergePlan:
        stored = await self._meta.get(keys.layout(0, stream))
        layout = Layout() if stored is None else decode(Layout, stored.value)
        # Read after the layout: if a job is created later, the swap loses the comparison.
        open_job = await self._meta.get(keys.job(0, stream))
        job = None if open_job is None else decode(Job, open_job.value)
        entries = await self._newest(stream, layout.log_start, thorough=thorough or relieve)
        free = mergeable(entries, job)
        if relieve:
            run = plan_relief(free, self._settings.merge_bytes, self._run_entries)
            return MergePlan(stream, layout.generation, run)
        small_bytes = self._settings.merge_small_bytes
        old = free[:-NEWEST] if self._remote else free
        if self._remote and thorough:
            # Younger entries are left to the rounds, which read many streams together.
            settled_ms = self._clock.now_ms() - self._settings.sweep_interval_ms
            old = [entry for entry in old if entry.created_ms < settled_ms]
        run = plan_merge(
            old,
            fan_in=self._settings.merge_fan_in,
            small_bytes=small_bytes,
            max_bytes=self._settings.merge_bytes,
            max_entries=self._run_entries,
            enough_bytes=enough_bytes,
        )
        if not run:
            return MergePlan(stream, layout.generation, run)
        small = [entry for entry in old if entry.length < small_bytes]
        before = sum(1 for entry in small if entry.start < run[0].start)
        return MergePlan(stream, layout.generation, run, small[before:], small[:before])

    async def _newest(self, stream: int, log_start: int, *, thorough: bool) -> list[IndexEntry]:
        """The entries to plan with; their inline bytes are counted."""
        inline = self._budget.counted(stream)

        def wanted(entry: IndexEntry) -> bool:
            nonlocal inline
            if entry.kind == INLINE:
                inline -= entry.length
            chunk = entry.kind in (INLINE, WAL)
            small = chunk and entry.length < self._settings.merge_small_bytes
            return thorough or small or inline > 0

        entries = await self._index.newest(stream, log_start, PLAN_ENTRIES, wanted)
        self._budget.measured(stream, inline_size(entries))
        return entries

    async def _read(self, part: Sequence[MergePlan]) -> list[_Read]:
        """The chunks of each run; runs with an unreadable chunk are left out."""
        part = sorted(part, key=attrgetter("stream"))
        wanted = [(planned.stream, entry) for planned in part for entry in planned.run]
        kept = iter(await self._loader.kept_batches(wanted))
        read: list[_Read] = []
        for planned in part:
            chunks = [chunk for chunk in islice(kept, len(planned.run)) if chunk is not None]
            if len(chunks) == len(planned.run):
                read.append((chunks, planned))
            # Otherwise a chunk was trimmed or merged by another broker, or cannot be read.
        return read

    async def _merge_group(self, group: Sequence[_Read]) -> list[int]:
        """Write one object and swap it in; returns the streams whose swap was committed."""
        read: list[tuple[Chunk, MergePlan]] = []
        for chunks, planned in group:
            try:
                read.append((await self._concatenated(planned.stream, chunks), planned))
            except CorruptMessage as error:
                logger.warning(
                    "Cannot merge the entries of a stream",
                    extra={"stream": planned.stream, "error": error},
                )
        if not read:
            return []
        starts = [planned.run[0].start for _, planned in read]
        data, placements = encode_section(
            [chunk for chunk, _ in read], self._clock.now_ms(), starts
        )
        self._next_object += 1
        key = f"wal/{self._incarnation}/merged-{self._next_object:012d}.wo"
        await self._objects.put(key, data)
        merged = [
            MergedRun(chunk.stream, planned.run, planned.generation, chunk.length, placement)
            for (chunk, planned), placement in zip(read, placements, strict=True)
        ]
        try:
            swapped = set(await self._swap(key, sum(map(len, data)), merged))
        except Fenced as error:
            self._on_fenced(error)
            raise
        if not swapped:
            await self._reclaimer.delete([key], Reason.UNUSED_MERGE)
        for one in merged:
            if one.stream in swapped:
                self._budget.added(one.stream, -inline_size(one.run))
        entries = sum(len(one.run) for one in merged)
        logger.debug("Merged", extra={"entries": entries, "streams": len(merged), "object": key})
        return sorted(swapped)

    async def _concatenated(self, stream: int, chunks: Sequence[StoredBatches]) -> Chunk:
        """One chunk from several. Yields the event loop between parts of it."""
        made: list[Chunk] = []
        first = size = 0
        for after, (data, _) in enumerate(chunks, start=1):
            size += len(data)
            if size >= CONCATENATED_BYTES or after == len(chunks):
                made.append(concatenate_chunks(stream, chunks[first:after]))
                first, size = after, 0
                await asyncio.sleep(0)
        return Chunk(
            stream,
            list(chain.from_iterable(chunk.batches for chunk in made)),
            list(chain.from_iterable(chunk.parts for chunk in made)),
            sum(chunk.length for chunk in made),
        )

    async def _swap(self, key: str, size: int, merged: Sequence[MergedRun]) -> list[int]:
        transactions = list(divide_by_transaction(merged, self._meta.limits))
        swapped: list[int] = []
        lost: list[str] = []
        for part, some in enumerate(transactions):
            swap = MergeSwap(
                incarnation=self._incarnation,
                store=self._objects.id,
                key=key,
                size=size,
                part=part,
                parts=len(transactions),
                merged=some,
            )
            live = await transact(self._meta, swap.keys, swap_runs(swap, self._clock.now_ms()))
            swapped += live
            if not live:
                lost.append(swap.record_key)
        for record in lost if swapped else ():
            own = keys.incarnation(0, self._incarnation)
            close = close_part(own, record, len(transactions), size, self._clock.now_ms())
            await transact(self._meta, [own, record], close)
        for one in merged:
            if (state := self._streams.get(one.stream)) is not None:
                state.rearranged(0)
        return swapped


def _report(
    report: Callable[[int, int, int], None], planned: MergePlan, without: Sequence[IndexEntry] = ()
) -> None:
    size = sum(entry.length for entry in planned.small) - sum(entry.length for entry in without)
    report(planned.stream, len(planned.small) - len(without), size)
