"""The pipeline's own saga on simulated time: its tables are in memory, its tasks run at once."""

import asyncio
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

import pytest

from headwater.errors import (
    CatalogUnavailable,
    CommitConflict,
    KafkaError,
    ObjectNotFound,
    StoreError,
)
from headwater.log.jobs.jobs import Job
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.objects.memory import MemoryObjects
from headwater.pipeline.compaction.compactor import Compactor
from headwater.pipeline.compaction.range_task import run_packed
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.pipeline.settings import PipelineSettings
from headwater.pipeline.spark.runner import Done
from headwater.tables.commit.changes import CommitOutcome, Settled, Settlement
from headwater.tables.commit.watermarks import Append, plan_appends, watermark_property, watermarks
from tests.support.simulation.world import Life, SimulatedCluster

T = TypeVar("T")


class Catalog:
    """Every table; outlives the metadata store."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.files: dict[str, dict[str, int]] = {}
        """By topic id: rows by file."""
        self.properties: dict[str, dict[str, str]] = {}
        self.epochs: dict[str, int] = {}
        self.faults = 0.0

    def fail(self) -> None:
        if self.rng.random() < self.faults:
            raise CatalogUnavailable("the catalog is away")

    def marks(self, topic_id: str) -> Mapping[int, int]:
        return watermarks(self.properties.get(topic_id, {}))


class SimulatedTables:
    """What the saga asks of ``TableCommits``, for a cluster of one restore epoch."""

    def __init__(self, catalog: Catalog, epoch: int) -> None:
        self._catalog = catalog
        self.epoch = epoch

    def append(
        self,
        topic: StoredTopic,
        jobs: Sequence[Job],
        holes: Mapping[str, Sequence[tuple[int, int]]],
    ) -> CommitOutcome:
        catalog = self._catalog
        catalog.fail()
        if topic.id not in catalog.files:
            catalog.files[topic.id], catalog.epochs[topic.id] = {}, self.epoch
        assert catalog.epochs[topic.id] == self.epoch, "the table is of another restore epoch"
        properties = catalog.properties.setdefault(topic.id, {})
        appends = [
            Append(
                job=job.id,
                stream=job.stream,
                start=job.start,
                end=job.end,
                files=[file for file in job.files if file.rows],
                holes=holes[job.id],
            )
            for job in jobs
        ]
        plan = plan_appends(appends, properties)
        for one in plan.fresh:
            catalog.files[topic.id] |= {file.key: file.rows for file in one.files}
        for stream, mark in plan.watermarks.items():
            properties[watermark_property(stream)] = str(mark)
        landed = frozenset([*plan.landed, *(one.job for one in plan.fresh)])
        catalog.fail()
        return CommitOutcome(landed=landed, refused=plan.refused, snapshot_id=None)

    def rewrite(
        self, topic: StoredTopic, jobs: Sequence[Job], may_be_gone: Collection[str]
    ) -> CommitOutcome:
        self._catalog.fail()
        assert self._catalog.epochs[topic.id] == self.epoch, "the table is of another epoch"
        there = self._catalog.files[topic.id]
        landed, refused = set(), {}
        for job in jobs:
            inputs = [key in there for key in job.inputs]
            needed = [key in there for key in job.inputs if key not in may_be_gone]
            outputs = [file for file in job.files if file.rows]
            live = [file.key in there for file in outputs]
            if all(needed) and any(inputs) and not any(live):
                for key in job.inputs:
                    there.pop(key, None)
                there |= {file.key: file.rows for file in outputs}
                landed.add(job.id)
            elif not any(inputs) and (all(live) or not needed):
                landed.add(job.id)
            else:
                refused[job.id] = CommitConflict(f"job {job.id}: {inputs}, {live}")
        self._catalog.fail()
        return CommitOutcome(landed=frozenset(landed), refused=refused, snapshot_id=None)

    def partitioning(self, _topic: StoredTopic) -> str:
        return "partition"

    def expire(self, _topic: StoredTopic, _now_ms: int) -> int:
        return 0

    def remove(self, topic: StoredTopic, files: Sequence[str], _now_ms: int) -> frozenset[str]:
        self._catalog.fail()
        there = self._catalog.files.get(topic.id, {})
        for key in files:
            there.pop(key, None)
        return frozenset(files)

    def missing(self, topic: StoredTopic, keys: Collection[str]) -> list[str] | None:
        self._catalog.fail()
        if topic.id not in self._catalog.files:
            if not keys:
                return None
            self._catalog.files[topic.id] = {}
            self._catalog.epochs[topic.id] = self.epoch - 1
        if self._catalog.epochs[topic.id] >= self.epoch:
            return None
        return [key for key in keys if key not in self._catalog.files[topic.id]]

    def settle(self, topic: StoredTopic, settlement: Settlement) -> Settled:
        catalog = self._catalog
        catalog.fail()
        there = catalog.files[topic.id]
        if catalog.epochs[topic.id] < self.epoch:
            removed = [key for key in there if key not in settlement.files]
            for key in removed:
                del there[key]
            for key, file in settlement.files.items():
                if file is not None and file.rows:
                    there[key] = file.rows
            catalog.properties[topic.id] = {
                watermark_property(stream): str(mark)
                for stream, mark in settlement.watermarks.items()
            }
            catalog.epochs[topic.id] = self.epoch
        catalog.fail()
        return Settled()


class AtOnce:
    """No threads: what blocks takes some simulated time."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    async def run(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(self._rng.uniform(0, 2))
        return work()

    async def call_catalog(self, question: Callable[[], T]) -> T:
        await asyncio.sleep(self._rng.uniform(0, 0.2))
        return question()

    def close(self) -> None: ...


class FailingRunner:
    """Runs tasks here, and may fail after some of them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        results = []
        for task in tasks:
            if self._rng.random() < 0.05:
                raise StoreError("a worker was lost")
            results.append(run_packed(task))
        done(len(tasks))
        return results

    def close(self) -> None: ...


class MemoryReads:
    """See ``object_reads.ObjectReads``."""

    def __init__(self, objects: MemoryObjects) -> None:
        self._objects = objects

    def read(self, key: str, start: int, length: int) -> bytearray:
        if key not in self._objects._objects:
            raise ObjectNotFound(key)
        data = self._objects._objects[key][0]
        return bytearray(data[start : start + length])

    def expect(self, ranges: object) -> None: ...

    def close(self) -> None: ...


def tasks_in_memory(patch: pytest.MonkeyPatch, world: SimulatedCluster) -> None:
    """Have tasks read and write this world's objects."""

    @contextmanager
    def create(_url: str, key: str) -> Iterator[io.BytesIO]:
        sink = io.BytesIO()
        yield sink
        data = sink.getvalue()
        world.objects._objects.setdefault(key, (data, world.clock.now_ms()))

    class Id:
        @property
        def hex(self) -> str:
            return f"{world.rng.getrandbits(128):032x}"

    patch.setattr(
        "headwater.pipeline.compaction.range_task.open_reads",
        lambda _url: MemoryReads(world.objects),
    )
    patch.setattr("headwater.pipeline.compaction.range_task.uuid4", Id)
    patch.setattr("headwater.tables.files.parquet.create_object", create)
    patch.setattr("headwater.tables.files.parquet.store_id", lambda _url: world.objects.id)


class SagaDriver:
    """One process that compacts with the real driver, until it is killed."""

    def __init__(self, world: SimulatedCluster, catalog: Catalog, epoch: int) -> None:
        self._life = Life()
        self._rng = Random(world.rng.random())
        meta, objects = world.stores(self._rng, self._life)
        self._own = Compactor(
            meta=meta,
            objects=objects,
            reclaimer=Reclaimer(objects),
            objects_url="file:///nowhere",
            clock=world.clock,
            tables=SimulatedTables(catalog, epoch),  # type: ignore[arg-type]
            runner=FailingRunner(self._rng),
            settings=PipelineSettings(
                file_bytes=self._rng.choice([500, 5000]), claim_ms=2000, max_age_ms=0
            ),
            new_id=lambda: f"{self._rng.getrandbits(128):032x}",
            threads=AtOnce(self._rng),
        )
        self.failures: list[str] = []
        self.task = asyncio.create_task(self._run())

    async def kill(self) -> None:
        self._life.dead = True
        while not self.task.done():
            # Its claims are given up first, which a dead process cannot do and times out with.
            self.task.cancel()
            await asyncio.wait([self.task], timeout=1)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0, 4))
            work = self._own.rewrite if self._rng.random() < 0.3 else self._own.compact
            try:
                self.failures = (await work()).failures
            except (StoreError, KafkaError, TimeoutError):
                continue  # another call goes on where this one ended
