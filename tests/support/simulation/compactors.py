"""Simulated compactors: rivals that may be killed at any await, and a table that they commit to."""

import asyncio
from collections.abc import Collection, Sequence
from itertools import pairwise
from random import Random

from headwater.engine import Topic
from headwater.errors import KafkaError, ObjectNotFound, StoreError, StoreUnavailable
from headwater.log.formats.metadata_values import INLINE, PARQUET, SEGMENT, WAL, IndexEntry
from headwater.log.formats.segment import SegmentSource
from headwater.log.jobs.jobs import CREATED, INDEX_SWAPPED, PARQUET_WRITTEN, DataFile, Job
from headwater.log.read.chunk_source import ChunkSource
from headwater.log.read.index import entries_between
from headwater.log.read.parquet.source import ParquetSource
from headwater.log.read.sources import PieceSource
from headwater.log.reclaim.pins import Pins
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.reclaim.releases import TableReleases
from headwater.wire.columnar import decode
from tests.support.log.compaction import StepwiseCompactor
from tests.support.simulation.world import Life, SimulatedCluster, at_once

DROPPED = b"drop"
"""Records whose value begins so are not kept by compaction, as those of aborted transactions."""
PIN_MS = 20_000


class SimulatedCatalog:
    """The tables of all topics, in one place that takes commits as a catalog does."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.files: dict[str, set[str]] = {}
        self.watermarks: dict[int, int] = {}
        self.dropped: set[str] = set()
        self.commits = 0
        self.faults = 0.0

    async def commit(self, job: Job) -> None:
        """Take a manifest in, once; a table that was dropped takes nothing."""
        await asyncio.sleep(self._rng.uniform(0, 0.2))
        self._fail()
        if job.topic_id not in self.dropped:
            files = {file.key for file in job.files if file.kind == PARQUET}
            there = self.files.setdefault(job.topic_id, set())
            if job.kind == "rewrite":
                if set(job.inputs) <= there:
                    there -= set(job.inputs)
                    there |= files
                    self.commits += 1
            elif self.watermarks.get(job.stream, 0) < job.end:
                self.watermarks[job.stream] = job.end
                there |= files
                self.commits += 1
        self._fail()

    def _fail(self) -> None:
        if self._rng.random() < self.faults:
            raise StoreUnavailable("the catalog is away")

    async def maintain(self, releases: TableReleases, living: Collection[str]) -> None:
        """Take what left the log out of the tables, then let it go."""
        async for noted in releases.waiting():
            for file in noted.files:
                topic_id = file.split("/")[1]
                if topic_id not in living:
                    self.dropped.add(topic_id)
                    self.files.pop(topic_id, None)
                self.files.get(topic_id, set()).discard(file)
            await asyncio.sleep(self._rng.uniform(0, 1))
            gone = [file for file in noted.files if self._rng.random() < 0.7]
            await releases.let_go(noted, gone)


class SimulatedCompactor:
    """One process that compacts, rewrites and keeps the tables, until it is killed."""

    def __init__(
        self,
        world: SimulatedCluster,
        table: SimulatedCatalog,
        name: str,
        *,
        only_finish: bool = False,
    ) -> None:
        self._only_finish = only_finish
        self._world = world
        self._table = table
        self._name = name
        self._life = Life()
        self._rng = Random(world.rng.random())
        meta, objects = world.stores(self._rng, self._life)
        self._meta = meta
        self._objects = objects
        self._reclaimer = Reclaimer(objects)
        self._own = StepwiseCompactor(meta, objects, world.clock, self._rng)
        self._steps = self._own.steps
        self._pins = Pins(meta, world.clock)
        self._releases = TableReleases(meta, world.clock)
        stores = {objects.id: objects}
        chunks = ChunkSource(meta, stores, read_bytes=1 << 20, leader_epoch=0)
        self._sources: dict[int, PieceSource] = {
            INLINE: chunks,
            WAL: chunks,
            SEGMENT: SegmentSource(stores, read_bytes=1 << 20, leader_epoch=0),
            PARQUET: ParquetSource(stores, leader_epoch=0, offload=at_once),
        }
        self.task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        self._life.dead = True
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2))
            try:
                topics = await self._topics()
                if self._rng.random() < 0.2:
                    living = {str(topic.id) for topic in topics}
                    await self._table.maintain(self._releases, living)
                elif topics:
                    topic = self._rng.choice(topics)
                    await self._work(topic, self._rng.randrange(len(topic.streams)))
            except (StoreError, KafkaError, TimeoutError):
                continue  # this driver's attempt failed; it or another takes the job up

    async def _topics(self) -> Sequence[Topic]:
        engine = self._world.engine()
        if engine is None:
            return []
        async with asyncio.timeout(5):
            return await engine.topics.all()

    async def _work(self, topic: Topic, partition: int) -> None:
        stream = topic.streams[partition]
        job = await self._steps.get(stream)
        if job is None and not self._only_finish:
            job = await self._create(topic, partition)
        if job is None:
            return
        if job.state == CREATED:
            job = await self._write(job)
            if job is None:
                return
        await self._pause()
        if job.state == PARQUET_WRITTEN:
            await self._table.commit(job)
        await self._pause()
        for step in (self._steps.mark_committed, self._steps.swap):
            there = await step(job)
            if there is None:
                return
            job = there
            await self._pause()
        assert job.state == INDEX_SWAPPED
        await self._steps.finish(job)

    async def _pause(self) -> None:
        if self._rng.random() < 0.1:
            await asyncio.sleep(self._rng.uniform(0, 15))

    async def _create(self, topic: Topic, partition: int) -> Job | None:
        stream = topic.streams[partition]
        generation = await self._steps.generation(stream)
        entries = [one async for one in entries_between(self._meta, stream, 0, 1 << 40)]
        run = self._choose(entries)
        if not run:
            return None
        rewrite = run[0].kind == PARQUET
        job = Job(
            id=f"{self._rng.getrandbits(64):016x}",
            kind="rewrite" if rewrite else "compact",
            stream=stream,
            topic=topic.name,
            topic_id=str(topic.id),
            partition=partition,
            start=run[0].start,
            end=run[-1].end,
            created_ms=self._world.clock.now_ms(),
            inputs=[entry.key for entry in run] if rewrite else [],
        )
        await self._pause()
        return await self._steps.create(job, generation)

    def _choose(self, entries: Sequence[IndexEntry]) -> list[IndexEntry]:
        """A run of entries: of files to rewrite, or the oldest that are in no file."""
        if self._rng.random() < 0.3:
            files = [entry for entry in entries if entry.kind == PARQUET]
            first = self._rng.randrange(len(files)) if files else 0
            run = files[first : first + 1]
            for entry in files[first + 1 : first + 3]:
                if entry.start == run[-1].end:
                    run.append(entry)
            return run
        last = max(
            (number for number, entry in enumerate(entries) if entry.kind in (PARQUET, SEGMENT)),
            default=-1,
        )
        fresh = [entry for entry in entries[last + 1 :] if not entry.set_aside]
        return fresh[: self._rng.choice([1, 3, 50])]

    async def _write(self, job: Job) -> Job | None:
        """Write files of this attempt's own and try to have them be the manifest."""
        files: list[DataFile] = []
        try:
            reader = f"{self._name}/{self._rng.getrandbits(32)}"
            async with self._pins.held(job.stream, job.start, reader, PIN_MS):
                files, set_aside = await self._write_files(job)
        except ObjectNotFound:
            # Trimmed under it, and this driver's plan with it; another may have more luck.
            return await self._steps.give_up(job)
        await self._pause()
        fixed = await self._steps.fix(job, files, set_aside)
        if fixed is None or fixed.files != files:
            await self._steps.discard(job, files, self._reclaimer)
        return fixed

    async def _write_files(self, job: Job) -> tuple[list[DataFile], list[tuple[int, int, str]]]:
        found = entries_between(self._meta, job.stream, job.start, job.end)
        entries = [entry async for entry in found]
        content = [await self._batches(job.stream, entry) for entry in entries]
        rng = self._rng
        whole = bool(entries) and entries[0].start == job.start
        if whole and job.kind == "compact" and rng.random() < 0.2:
            file = await self._own.write_segment(job, b"".join(content), rng.choice([1, 5, 100]))
            return [file], []
        aside: list[tuple[int, int, str]] = []
        if len(entries) > 1 and job.kind == "compact" and rng.random() < 0.2:
            bad = rng.randrange(1, len(entries))
            aside = [(entries[bad].start, entries[bad].end, "does not decode")]
        bounds = sorted({job.start, job.end, *(edge for one in aside for edge in one[:2])})
        if not aside and entries and rng.random() < 0.3:
            bounds = sorted({*bounds, rng.choice(entries).end})
        files = []
        for start, end in pairwise(bounds):
            if not aside or (start, end) != aside[0][:2]:
                batches = b"".join(
                    part
                    for entry, part in zip(entries, content, strict=True)
                    if start <= entry.start < end
                )
                files.append(await self._write_file(job, batches, start, end))
        return files, aside

    async def _write_file(self, job: Job, batches: bytes, start: int, end: int) -> DataFile:
        rows = decode(batches, 0)
        values = rows.column("value").to_pylist()
        offsets = rows.column("offset").to_pylist()
        dropped = {
            offset
            for offset, value in zip(offsets, values, strict=True)
            if value.startswith(DROPPED)
        }
        group = self._rng.choice([200, 5000])
        return await self._own.write(
            job, batches, start, end, dropped=dropped, row_group_bytes=group
        )

    async def _batches(self, stream: int, entry: IndexEntry) -> bytes:
        source = self._sources[entry.kind]
        extents = await source.extents(entry) if source.is_large(entry) else [None]
        pieces = [await source.piece(stream, entry, extent) for extent in extents]
        return b"".join(bytes(piece.data) for piece in pieces)
