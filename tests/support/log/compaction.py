"""A compactor without Spark: it reads a range as a consumer would and writes one Parquet file."""

import io
from collections.abc import Collection, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.clock import Clock
from headwater.engine import Read, Topic
from headwater.log.engine import LogEngine
from headwater.log.formats.file_notes import NOTES, encode_notes
from headwater.log.formats.metadata_values import SEGMENT, IndexEntry
from headwater.log.formats.segment import encode_segment
from headwater.log.jobs.jobs import DataFile, Job, data_file_key
from headwater.log.jobs.steps import JobSteps
from headwater.log.read.index import entries_between
from headwater.log.reclaim.releases import object_keys
from headwater.meta.store import MetadataStore
from headwater.objects.store import DeletableObjects
from headwater.tables.files.parquet import parquet_writer
from headwater.tables.files.row_groups import row_groups
from headwater.tables.schema import to_table
from headwater.wire.batches.batch import HEADER, batch_sizes, split_batches
from headwater.wire.columnar import decode


def parquet_file(
    batches: bytes,
    *,
    dropped: Collection[int] = (),
    row_group_bytes: int = 2000,
    entries: Sequence[IndexEntry] = (),
) -> tuple[bytes, int, list[int]]:
    """Batches with their offsets set as a Parquet file; its rows and their timestamps."""
    rows = decode(batches, 0)
    kept = np.array([int(o) not in dropped for o in rows.column("offset").to_numpy()], np.bool_)
    rows = rows.filter(pa.array(kept))
    sink = io.BytesIO()
    with parquet_writer(sink) as (writer, _):
        writer.add_key_value_metadata({NOTES: encode_notes(entries)})
        if rows.num_rows:
            for table in row_groups([to_table(rows)], row_group_bytes):
                writer.write_table(table, row_group_size=table.num_rows)
    times = (rows.column("timestamp").cast("int64").to_numpy() // 1000).tolist()
    return sink.getvalue(), rows.num_rows, times


async def read_range(
    engine: LogEngine, topic: Topic, partition: int, start: int, end: int
) -> bytes:
    """The batches of ``[start, end)``, whose ends are ends of batches."""
    parts: list[bytes] = []
    offset = start
    while offset < end:
        answer = engine.read(topic, partition, offset, 1 << 16, committed=True)
        read = answer if isinstance(answer, Read) else await answer
        assert read.parts, f"nothing at {offset} of [{start}, {end})"
        for part in read.parts:
            for position, size, _count in batch_sizes(part):
                fields = HEADER.unpack_from(part, position)
                if fields[0] < end:
                    parts.append(bytes(part[position : position + size]))
                    offset = fields[0] + fields[6] + 1
    return b"".join(parts)


def follow(engine: LogEngine, topic: Topic, partition: int = 0) -> None:
    """Tell an engine that the index was rearranged, as its follower would in a moment."""
    engine._streams[topic.streams[partition]].rearranged(0)


class StepwiseCompactor:
    """Plans, writes and steps jobs on given stores."""

    def __init__(
        self, meta: MetadataStore, objects: DeletableObjects, clock: Clock, rng: Random
    ) -> None:
        self.meta = meta
        self.objects = objects
        self.clock = clock
        self.rng = rng
        self.steps = JobSteps(meta, clock)

    async def create(
        self, topic: Topic, partition: int = 0, *, start: int = 0, end: int = 1 << 40
    ) -> Job | None:
        """Open a job over the entries between the offsets; the stream's own where it has one."""
        stream = topic.streams[partition]
        generation = await self.steps.generation(stream)
        entries = [entry async for entry in entries_between(self.meta, stream, start, end)]
        entries = [entry for entry in entries if entry.start >= start]
        if not entries:
            return await self.steps.get(stream)
        job = Job(
            id=f"{self.rng.getrandbits(64):016x}",
            kind="compact",
            stream=stream,
            topic=topic.name,
            topic_id=str(topic.id),
            partition=partition,
            start=entries[0].start,
            end=entries[-1].end,
            created_ms=self.clock.now_ms(),
        )
        return await self.steps.create(job, generation)

    async def write(self, job: Job, batches: bytes, start: int, end: int, **how: Any) -> DataFile:
        """Write the batches of a range as a file of an attempt of its own."""
        entries = [one async for one in entries_between(self.meta, job.stream, start, end)]
        data, rows, times = parquet_file(batches, entries=entries, **how)
        file = self._file(job, start, end, len(data), rows, times)
        await self.objects.put(file.key, [data])
        return file

    def _file(
        self, job: Job, start: int, end: int, size: int, rows: int, times: list[int], **more: Any
    ) -> DataFile:
        key = data_file_key(job, start, end, f"{self.rng.getrandbits(32):08x}", **more)
        return DataFile(
            key=key,
            store=self.objects.id,
            size=size,
            rows=rows,
            start=start,
            end=end,
            min_timestamp=min(times, default=-1),
            max_timestamp=max(times, default=-1),
            **more,
        )

    async def write_segment(self, job: Job, batches: bytes, interval: int) -> DataFile:
        parts, index = encode_segment(batches, job.start, self.clock.now_ms(), interval)
        times = [batch.max_timestamp for batch in split_batches(batches)]
        size = sum(map(len, parts))
        file = self._file(job, job.start, job.end, size, 0, times, kind=SEGMENT)
        segment_key, index_key = object_keys(SEGMENT, file.key)
        await self.objects.put(segment_key, parts)
        await self.objects.put(index_key, [index])
        return file

    async def run_jobs(self, job: Job) -> None:
        """From a fixed manifest to the end."""
        for step in (self.steps.mark_committed, self.steps.swap):
            if await step(job) is None:
                return
        await self.steps.finish(job)

    async def compact(
        self, engine: LogEngine, topic: Topic, partition: int = 0, **how: Any
    ) -> Job | None:
        """A whole job in one go."""
        bounds = {name: how.pop(name) for name in ("start", "end") if name in how}
        job = await self.create(topic, partition, **bounds)
        assert job is not None
        batches = await read_range(engine, topic, partition, job.start, job.end)
        file = await self.write(job, batches, job.start, job.end, **how)
        fixed = await self.steps.fix(job, [file])
        assert fixed is not None
        await self.run_jobs(fixed)
        follow(engine, topic, partition)
        return fixed
