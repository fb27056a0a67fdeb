"""A log with a clock that is set by hand, for jobs that compact it."""

from contextlib import AbstractAsyncContextManager
from random import Random

from headwater.engine import Topic
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.jobs.jobs import (
    CREATED,
    DataFile,
    Job,
)
from headwater.log.jobs.steps import JobSteps
from headwater.log.read.index import entries_between
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.reclaim.releases import TableReleases
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits, prefix_end
from headwater.objects.memory import MemoryObjects
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import Record, encode_batch
from headwater.wire.columnar import decode as columns
from tests.support.log.compaction import StepwiseCompactor, read_range
from tests.support.log.harness import ClockByHand, running_engine

GRACE = 1_000
SETTINGS = LogSettings(
    inline_bytes=0, object_bytes=1, gc_grace_ms=GRACE, orphan_grace_ms=GRACE, merge_fan_in=2
)


class JobPlace:
    """Stores with one stream of ten small entries on them."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ClockByHand()
        self.meta = MemoryStore(limits)
        self.objects = MemoryObjects(clock=self.clock)
        self.collector = GarbageCollector(
            self.meta, self.objects, Reclaimer(self.objects), SETTINGS, self.clock
        )
        self.steps = JobSteps(self.meta, self.clock)
        self.releases = TableReleases(self.meta, self.clock)
        self.compactor = StepwiseCompactor(self.meta, self.objects, self.clock, Random(7))

    async def fill(self, engine: LogEngine, name: str = "t", entries: int = 10) -> Topic:
        topic = await engine.topics.create(name, 1, {"retention.ms": "-1"})
        for number in range(entries):
            records = [Record(n, 1000 * number + n, None, b"v%d" % number) for n in range(2)]
            await engine.append(topic, 0, split_batches(encode_batch(records)))
        return topic

    def engine(self, broker_id: int = 1) -> AbstractAsyncContextManager[LogEngine]:
        return running_engine(
            self.meta,
            self.objects,
            broker_id=broker_id,
            settings=SETTINGS,
            clock=self.clock,
            housekeeping=False,
        )

    async def written(self, engine: LogEngine, topic: Topic, job: Job) -> DataFile:
        batches = await read_range(engine, topic, 0, job.start, job.end)
        return await self.compactor.write(job, batches, job.start, job.end)

    async def index(self, topic: Topic) -> list[IndexEntry]:
        found = entries_between(self.meta, topic.streams[0], 0, 1 << 40)
        return [entry async for entry in found]

    async def there(self, prefix: str) -> list[str]:
        return [entry.key for entry in (await self.meta.scan(prefix, prefix_end(prefix))).entries]

    async def files(self) -> set[str]:
        return {info.key async for info in self.objects.list("tables/")}

    async def collect(self) -> None:
        self.clock.now += GRACE + 1
        await self.collector.collect_released()
        await self.collector.collect_lost_files()

    async def let_all_go(self) -> None:
        async for noted in self.releases.waiting():
            await self.releases.let_go(noted, noted.files)


async def created(place: JobPlace, topic: Topic, **bounds: int) -> Job:
    job = await place.compactor.create(topic, **bounds)
    assert job is not None
    assert job.state == CREATED
    return job


async def read_all_values(engine: LogEngine, topic: Topic) -> list[bytes | None]:
    bounds = await engine.offsets(topic, 0)
    batches = await read_range(engine, topic, 0, bounds.log_start, bounds.high_watermark)
    values: list[bytes | None] = columns(batches, 0).column("value").to_pylist()
    return values
