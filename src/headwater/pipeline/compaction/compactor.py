"""The driver of compaction, key compaction and rewrites.

Each range of a stream is a job, a saga in the metadata store (``headwater.log.jobs.jobs``). The
driver takes over open jobs, plans new ones, and runs them together: one Spark job writes all files,
one commit per table appends them, and then the index entries of each stream are swapped. Every step
can be repeated by any process, so if a driver dies, the next one continues its jobs.

A driver claims a job with a pin, which also protects the objects that it reads. The claim only
avoids double work: the metadata store decides which manifest is used.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Final
from uuid import uuid4

from headwater.clock import Clock
from headwater.errors import KafkaError, StoreError
from headwater.log.jobs.jobs import Job
from headwater.log.jobs.steps import JobSteps
from headwater.log.reclaim.pins import Pins
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.pipeline.compaction.planner import RangePlan, Rules
from headwater.pipeline.compaction.saga import OwnedJob, ProcessThreads, Run, Saga, SagaThreads
from headwater.pipeline.compaction.strategies import Strategy, cleaning, compacting, rewriting
from headwater.pipeline.compaction.summary import NoWatcher, RunSummary, Watcher
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.pipeline.metadata_reads import (
    StoredTopic,
    claim_name,
    is_claimed,
    read_topics,
    read_view,
)
from headwater.pipeline.settings import PipelineSettings
from headwater.pipeline.spark.runner import Runner

ROUND_STREAMS: Final = 256
"""Maximum streams per Spark job."""
CLAIM_POLL_S: Final = 0.2


class Compactor:
    """Compacts topics. One call at a time; other processes may compact at the same time."""

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        objects_url: str,
        clock: Clock,
        tables: TableCommits,
        runner: Runner,
        settings: PipelineSettings,
        watcher: Watcher | None = None,
        new_id: Callable[[], str] = lambda: uuid4().hex,
        threads: SagaThreads | None = None,
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._settings = settings
        self._watcher = watcher or NoWatcher()
        self._steps = JobSteps(meta, clock)
        self._pins = Pins(meta, clock)
        self._new_id = new_id
        self._process = new_id()[:8]
        self._threads = threads or ProcessThreads()
        self._saga = Saga(
            meta=meta,
            objects=objects,
            reclaimer=reclaimer,
            objects_url=objects_url,
            clock=clock,
            tables=tables,
            runner=runner,
            file_bytes=settings.file_bytes,
            watcher=self._watcher,
            threads=self._threads,
        )

    def close(self) -> None:
        """Wait for the last request to the catalog."""
        self._threads.close()

    async def follow(self, names: Collection[str]) -> None:
        """Compact without end what is large, old or in many pieces. Errors are only reported."""
        rules = Rules(
            file_bytes=self._settings.file_bytes,
            max_age_ms=self._settings.max_age_ms,
            max_entries=self._settings.max_entries,
        )
        await read_topics(self._meta, names)
        while True:
            try:
                for strategy in (compacting(rules), cleaning(at_once=False)):
                    summary = await self._run(names, strategy)
                    for line in summary.failures:
                        self._watcher.waiting(line)
            except (StoreError, KafkaError) as error:
                self._watcher.waiting(str(error))
            await asyncio.sleep(self._settings.interval_ms / 1000)

    async def compact(self, names: Collection[str] = ()) -> RunSummary:
        """Compact these topics, or all topics, up to the last stable offset.

        Returns when nothing is left to do, including jobs of other processes. Raises
        ``UnknownTopicOrPartition``, or ``StoreError`` or ``KafkaError`` if a store fails; another
        call continues from there.
        """
        await read_topics(self._meta, names)
        rules = Rules(file_bytes=self._settings.file_bytes, max_age_ms=0, max_entries=1)
        return await self._run(names, compacting(rules))

    async def rewrite(self, names: Collection[str] = ()) -> RunSummary:
        """Rewrite small files of these topics' tables, or of all, into large ones.

        Returns and raises as ``compact`` does.
        """
        await read_topics(self._meta, names)
        return await self._run(names, rewriting(self._settings.file_bytes))

    async def clean(self, names: Collection[str] = ()) -> RunSummary:
        """Run key compaction: keep the last record of each key in topics that are compacted.

        Returns and raises as ``compact`` does. Other topics do not change.
        """
        await read_topics(self._meta, names)
        return await self._run(names, cleaning(at_once=True))

    async def finish(self) -> RunSummary:
        """Finish the jobs that no process works on, and wait for the others."""
        return await self._run((), None)

    async def _run(self, names: Collection[str], strategy: Strategy | None) -> RunSummary:
        run = Run()
        began = time.monotonic()
        while await self._round(names, strategy, run):
            pass
        await self._saga.keep_tables(list(run.committed.values()))
        run.summary.seconds = time.monotonic() - began
        return run.summary

    async def _round(self, names: Collection[str], strategy: Strategy | None, run: Run) -> bool:
        """Run some jobs; returns whether there may be more to do.

        Without a strategy no new job is planned.
        """
        # A topic may be deleted while the run goes on.
        topics = await read_topics(self._meta, names, all_there=False)
        open_jobs = {job.stream: job for job in await self._steps.open_jobs()}
        async with AsyncExitStack() as claims:
            found, others = await self._take_over(topics, open_jobs, run, claims)
            busy = open_jobs.keys() | run.skipped
            if strategy is not None:
                planned, overtaken = await self._plan(topics, busy, strategy, claims)
                found += planned
                others = others or overtaken
            if found:
                await self._saga.run_jobs(found, run)
                return True
        if others:
            await asyncio.sleep(CLAIM_POLL_S)
        return others

    async def _take_over(
        self,
        topics: Sequence[StoredTopic],
        open_jobs: dict[int, Job],
        run: Run,
        claims: AsyncExitStack,
    ) -> tuple[list[OwnedJob], bool]:
        """Claim open jobs of any kind; also returns whether other processes work on some.

        Jobs of deleted topics are left out; they end with the deletion of the topic.
        """
        found, others = [], False
        for topic in topics:
            for stream in topic.streams:
                job = open_jobs.get(stream)
                if job is None or stream in run.skipped:
                    continue
                if await is_claimed(self._meta, job, self._process, self._clock.now_ms()):
                    others = True
                    continue
                await self._claim(job, claims)
                found.append(OwnedJob(topic, job))
        return found, others

    async def _plan(
        self,
        topics: Sequence[StoredTopic],
        busy: Collection[int],
        strategy: Strategy,
        claims: AsyncExitStack,
    ) -> tuple[list[OwnedJob], bool]:
        """Create jobs, oldest data first; also returns whether other processes created some."""
        now_ms = self._clock.now_ms()
        plans: list[tuple[RangePlan, int, StoredTopic, int]] = []
        for topic in topics:
            if not strategy.is_for(topic):
                continue
            for partition, stream in enumerate(topic.streams):
                if stream in busy:
                    continue
                generation, view = await read_view(self._meta, stream, strategy.kinds)
                if plan := strategy.plan(topic, view, now_ms):
                    plans.append((plan, generation, topic, partition))
        plans.sort(key=lambda each: each[0].oldest_ms)
        created = []
        for plan, generation, topic, partition in plans[:ROUND_STREAMS]:
            job = Job(
                id=self._new_id(),
                kind=plan.kind,
                stream=topic.streams[partition],
                topic=topic.name,
                topic_id=topic.id,
                partition=partition,
                start=plan.start,
                end=plan.end,
                created_ms=now_ms,
                inputs=list(plan.inputs),
            )
            await self._claim(job, claims)
            opened = await self._steps.create(job, generation)
            if opened is not None and opened.id == job.id:
                self._watcher.step(job, "created")
                created.append(OwnedJob(topic, job))
        return created, len(created) < len(plans[:ROUND_STREAMS])

    async def _claim(self, job: Job, claims: AsyncExitStack) -> None:
        name = claim_name(job, self._process)
        await claims.enter_async_context(
            self._pins.held(job.stream, job.start, name, self._settings.claim_ms)
        )
