"""The broker task that merges small entries: plan, read, write one object, swap."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from headwater.clock import Clock
from headwater.errors import CorruptMessage, KafkaError, StoreError
from headwater.log.formats import INLINE, WAL, IndexEntry, Layout
from headwater.log.index import IndexReader
from headwater.log.inline_budget import InlineBudget
from headwater.log.jobs import Job
from headwater.log.merge import (
    RUN_ENTRIES,
    Merged,
    Swap,
    apart,
    inline_size,
    mergeable,
    plan_merge,
    plan_relief,
    swap_runs,
)
from headwater.log.piece_loader import PieceLoader
from headwater.log.settings import LogSettings
from headwater.log.sources import Pause
from headwater.log.streams import Streams
from headwater.log.transactions import transact
from headwater.log.wal_object import Chunk, concatenate_chunks, encode_section
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

PUT_SECONDS, SWAP_SECONDS = 0.1, 0.02
"""About what an object of the largest size and its transaction take."""
GROUP_ENTRIES = 4096
"""Of how many entries one object is made at most, so that nobody waits for long meanwhile."""
NEWEST = 4
"""On a paid store so many entries are left out: who follows closely has them in memory."""
FAILURES = 3
"""After so many in a row it is the store that fails, and nothing more is tried."""
PLAN_ENTRIES = 4096
"""How much of a stream's index one plan looks at: small entries are made at its end."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """What is to be merged of a stream, if its layout is still of that generation."""

    stream: int
    generation: int
    run: Sequence[IndexEntry]
    more: bool
    """Whether there may be more to merge after it."""


class Merger:
    """Merges the small entries of given streams. Any broker may; the swap's guard decides.

    ``pause`` is waited for before each step that producers may notice.
    """

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        incarnation: str,
        settings: LogSettings,
        streams: Streams,
        index: IndexReader,
        loader: PieceLoader,
        clock: Clock,
        budget: InlineBudget,
        pause: Pause,
    ) -> None:
        self._pause = pause
        self._meta = meta
        self._objects = objects
        self._incarnation = incarnation
        self._settings = settings
        self._streams = streams
        self._index = index
        self._loader = loader
        self._clock = clock
        self._budget = budget
        self._paid = settings.flush_interval_ms > 0
        self._next_object = 0
        self._run_entries = min(RUN_ENTRIES, meta.limits.range_keys or RUN_ENTRIES)

    async def merge(
        self,
        streams: Sequence[int],
        *,
        relieve: bool = False,
        thorough: bool = False,
        hurry: bool = False,
    ) -> list[int]:
        """Merge what is worth it; returns the streams that may have more to merge.

        ``relieve`` moves what lies in the metadata store to objects, worth it or not, until it is
        no longer crowded. A ``thorough`` look goes further back than where large entries begin.
        In a ``hurry`` it waits for no pause. Streams that cannot be merged are left to the sweep
        and keep no others from it, unless all fail.
        """
        pause = self._pause if self._paid and not hurry and not relieve else _none
        enough: int | None = None
        if self._paid and not thorough:
            # Many streams of few flushes lie together, few streams of many flushes do not: so not
            # all of a stream at once, unless there are too few streams to fill an object with.
            settings = self._settings
            enough = max(settings.merge_small_bytes, settings.merge_bytes // max(1, len(streams)))
        again: list[int] = []
        plans = (
            self._plan(stream, enough, relieve=relieve, thorough=thorough) for stream in streams
        )
        failures = 0
        async for group in self._groups(plans):
            try:
                again += await self._merge_group(group, pause)
                failures = 0
            except (StoreError, KafkaError) as error:
                failures += 1
                if failures == FAILURES:
                    raise
                logger.warning("some streams are not merged: %s", error)
            if relieve and not self._budget.crowded():
                break
        return again

    async def measure(self, stream: int) -> None:
        """Correct what is known of the stream's bytes in the metadata store."""
        stored = await self._meta.get(keys.layout(0, stream))
        log_start = 0 if stored is None else decode(Layout, stored.value).log_start
        await self._newest(stream, log_start, thorough=False)

    async def _groups(self, plans: Iterable[Awaitable[_Planned]]) -> AsyncIterator[list[_Planned]]:
        """What is to be merged, as much at a time as fits one object."""
        group: list[_Planned] = []
        size = entries = failures = 0
        for plan in plans:
            try:
                planned = await plan
                failures = 0
            except (StoreError, KafkaError) as error:
                failures += 1
                if failures == FAILURES:
                    raise
                logger.warning("a stream is not merged: %s", error)
                continue
            if not planned.run:
                continue
            length = sum(entry.length for entry in planned.run)
            if group and (
                size + length > self._settings.merge_bytes
                or entries + len(planned.run) > GROUP_ENTRIES
            ):
                yield group
                group, size, entries = [], 0, 0
            group.append(planned)
            size += length
            entries += len(planned.run)
        if group:
            yield group

    async def _plan(
        self,
        stream: int,
        enough_bytes: int | None = None,
        *,
        relieve: bool = False,
        thorough: bool = False,
    ) -> _Planned:
        stored = await self._meta.get(keys.layout(0, stream))
        layout = Layout() if stored is None else decode(Layout, stored.value)
        # Read after the layout: a job created since then makes the swap lose.
        open_job = await self._meta.get(keys.job(0, stream))
        job = None if open_job is None else decode(Job, open_job.value)
        entries = await self._newest(stream, layout.log_start, thorough=thorough or relieve)
        free = mergeable(entries, job)
        if relieve:
            run = plan_relief(free, self._settings.merge_bytes, self._run_entries)
            return _Planned(stream, layout.generation, run, more=True)
        if self._paid:
            free = free[:-NEWEST]
        run = plan_merge(
            free,
            fan_in=self._settings.merge_fan_in,
            small_bytes=self._settings.merge_small_bytes,
            max_bytes=self._settings.merge_bytes,
            max_entries=self._run_entries,
            enough_bytes=enough_bytes,
        )
        small = sum(entry.length for entry in run) < self._settings.merge_small_bytes
        behind = sum(1 for entry in free if entry.start >= run[-1].end) if run else 0
        more = small or behind >= self._settings.merge_fan_in
        return _Planned(stream, layout.generation, run, more=more)

    async def _newest(self, stream: int, log_start: int, *, thorough: bool) -> list[IndexEntry]:
        """The entries to plan with; the bytes of those that are inline are counted."""
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

    async def _merge_group(self, group: Sequence[_Planned], pause: Pause) -> list[int]:
        read: list[tuple[Chunk, _Planned]] = []
        group = sorted(group, key=attrgetter("stream"))
        wanted = [(planned.stream, entry) for planned in group for entry in planned.run]
        kept = iter(await self._loader.kept_batches(wanted, pause))
        for planned in group:
            chunks = [chunk for chunk in islice(kept, len(planned.run)) if chunk is not None]
            if len(chunks) < len(planned.run):
                continue  # trimmed or merged by another broker meanwhile, or not readable
            try:
                read.append((concatenate_chunks(planned.stream, chunks), planned))
            except CorruptMessage as error:
                logger.warning("stream %d: cannot merge its entries: %s", planned.stream, error)
            await asyncio.sleep(0)  # whoever waits for the broker goes first
        if not read:
            return []
        parts, placements = encode_section([chunk for chunk, _ in read], self._clock.now_ms())
        self._next_object += 1
        key = f"wal/{self._incarnation}/merged-{self._next_object:012d}.wo"
        await pause(PUT_SECONDS)
        await self._objects.put(key, parts)
        merged = [
            Merged(chunk.stream, planned.run, planned.generation, chunk.length, placement)
            for (chunk, planned), placement in zip(read, placements, strict=True)
        ]
        swapped = await self._swap(key, sum(map(len, parts)), merged, pause)
        if not swapped:
            await self._objects.delete(key)
        for one in merged:
            if one.stream in swapped:
                self._budget.added(one.stream, -inline_size(one.run))
        logger.debug(
            "merged %d entries of %d streams", sum(len(m.run) for m in merged), len(merged)
        )
        return [planned.stream for _, planned in read if planned.more and planned.stream in swapped]

    async def _swap(self, key: str, size: int, merged: Sequence[Merged], pause: Pause) -> list[int]:
        transactions = list(apart(merged, self._meta.limits))
        swapped: list[int] = []
        for part, some in enumerate(transactions):
            await pause(SWAP_SECONDS)
            swap = Swap(
                incarnation=self._incarnation,
                store=self._objects.id,
                key=key,
                size=size,
                part=part,
                parts=len(transactions),
                merged=some,
            )
            swapped += await transact(self._meta, swap.keys, swap_runs(swap, self._clock.now_ms()))
        for one in merged:
            if (state := self._streams.get(one.stream)) is not None:
                state.rearranged(0)
        return swapped


async def _none(seconds: float) -> None:
    """No pause."""
