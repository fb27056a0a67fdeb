"""The broker task that merges small entries: plan, read, write one object, swap."""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence

from headwater.clock import Clock
from headwater.errors import CorruptMessage, ObjectNotFound
from headwater.log.formats import IndexEntry, Layout
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
from headwater.log.streams import Streams
from headwater.log.transactions import transact
from headwater.log.wal_object import Chunk, concatenate_chunks, encode_section
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

PLAN_ENTRIES = 4096
"""How much of a stream's index one plan looks at: small entries are made at its end."""


class Merger:
    """Merges the small entries of given streams. Any broker may; the swap's guard decides."""

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
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._incarnation = incarnation
        self._settings = settings
        self._streams = streams
        self._index = index
        self._loader = loader
        self._clock = clock
        self._budget = budget
        self._next_object = 0
        self._run_entries = min(RUN_ENTRIES, meta.limits.range_keys or RUN_ENTRIES)

    async def merge(self, streams: Iterable[int], *, relieve: bool = False) -> list[int]:
        """Merge what is worth it; returns the streams that may have more to merge.

        ``relieve`` moves what lies in the metadata store to objects, worth it or not, until it is
        no longer crowded.
        """
        again: list[int] = []
        async for group in self._groups(streams, relieve=relieve):
            again += await self._merge_group(group)
            if relieve and not self._budget.crowded():
                break
        return again

    async def _groups(
        self, streams: Iterable[int], *, relieve: bool
    ) -> AsyncIterator[list[tuple[int, int, Sequence[IndexEntry]]]]:
        """Streams with their generation and run, as many as fit one object."""
        group: list[tuple[int, int, Sequence[IndexEntry]]] = []
        size = 0
        for stream in streams:
            generation, run = await self._plan(stream, relieve=relieve)
            if not run:
                continue
            length = sum(entry.length for entry in run)
            if group and size + length > self._settings.merge_bytes:
                yield group
                group, size = [], 0
            group.append((stream, generation, run))
            size += length
        if group:
            yield group

    async def _plan(
        self, stream: int, *, relieve: bool = False
    ) -> tuple[int, Sequence[IndexEntry]]:
        stored = await self._meta.get(keys.layout(0, stream))
        layout = Layout() if stored is None else decode(Layout, stored.value)
        # Read after the layout: a job created since then makes the swap lose.
        open_job = await self._meta.get(keys.job(0, stream))
        job = None if open_job is None else decode(Job, open_job.value)
        entries = await self._index.newest(stream, layout.log_start, PLAN_ENTRIES)
        self._budget.measured(stream, inline_size(entries))
        free = mergeable(entries, job)
        if relieve:
            run = plan_relief(free, self._settings.merge_bytes, self._run_entries)
            return layout.generation, run
        run = plan_merge(
            free,
            fan_in=self._settings.merge_fan_in,
            small_bytes=self._settings.merge_small_bytes,
            max_bytes=self._settings.merge_bytes,
            max_entries=self._run_entries,
        )
        return layout.generation, run

    async def _merge_group(
        self, group: Sequence[tuple[int, int, Sequence[IndexEntry]]]
    ) -> list[int]:
        read: list[tuple[Chunk, int, Sequence[IndexEntry]]] = []
        for stream, generation, run in sorted(group):
            try:
                chunks = [await self._loader.kept_batches(stream, entry) for entry in run]
                read.append((concatenate_chunks(stream, chunks), generation, run))
            except ObjectNotFound:
                continue  # trimmed or merged by another broker meanwhile
            except CorruptMessage as error:
                logger.warning("stream %d: cannot merge its entries: %s", stream, error)
        if not read:
            return []
        parts, placements = encode_section([chunk for chunk, _, _ in read], self._clock.now_ms())
        self._next_object += 1
        key = f"wal/{self._incarnation}/merged-{self._next_object:012d}.wo"
        await self._objects.put(key, parts)
        merged = [
            Merged(chunk.stream, run, generation, chunk.length, placement)
            for (chunk, generation, run), placement in zip(read, placements, strict=True)
        ]
        swapped = await self._swap(key, sum(map(len, parts)), merged)
        if not swapped:
            await self._objects.delete(key)
        for one in merged:
            if one.stream in swapped:
                self._budget.added(one.stream, -inline_size(one.run))
        logger.debug(
            "merged %d entries of %d streams", sum(len(m.run) for m in merged), len(merged)
        )
        return swapped

    async def _swap(self, key: str, size: int, merged: Sequence[Merged]) -> list[int]:
        transactions = list(apart(merged, self._meta.limits))
        swapped: list[int] = []
        for part, some in enumerate(transactions):
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
