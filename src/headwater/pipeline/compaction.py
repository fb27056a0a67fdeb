"""The driver of compaction: chunks of many streams become Parquet files of their tables.

Each stream's range is a job, a saga kept in metadata (``headwater.log.jobs``). A driver takes up
whatever it finds open, then plans more, and carries all of them through together: one Spark job
writes the files of all, one commit per table appends them, and then each index is swapped. Every
step may be repeated by any process; a driver that dies is followed by the next one to look.

A driver that works on a job says so by a pin, which also keeps what it reads. That only avoids
that two of them do the same work: which manifest counts is decided in the metadata store.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar
from uuid import uuid4

import msgspec

from headwater.clock import Clock
from headwater.errors import (
    CatalogUnavailable,
    KafkaError,
    StoreError,
)
from headwater.log.job_steps import JobSteps
from headwater.log.jobs import CREATED, ICEBERG_COMMITTED, INDEX_SWAPPED, PARQUET_WRITTEN, Job
from headwater.log.pins import Pins
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.pipeline.planner import RangePlan, Rules, file_ranges, plan_range
from headwater.pipeline.runner import Runner
from headwater.pipeline.settings import PipelineSettings
from headwater.pipeline.streams import (
    StoredTopic,
    claim_name,
    is_claimed,
    read_entries,
    read_layout,
    read_topics,
    read_view,
)
from headwater.pipeline.summary import NoWatcher, Summary, Watcher
from headwater.pipeline.table_commits import TableCommits
from headwater.pipeline.task import RangeResult, RangeTask, pack
from headwater.topic_configs import compaction_target

KIND: Final = "compact"
ROUND_STREAMS: Final = 256
"""How many streams one Spark job takes."""
CLAIM_POLL_S: Final = 0.2
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Owned:
    """A job and the topic that it belongs to."""

    topic: StoredTopic
    job: Job


@dataclass(slots=True)
class _Run:
    """The state of one call of ``compact``."""

    summary: Summary = field(default_factory=Summary)
    skipped: set[int] = field(default_factory=set)
    """Streams that this call leaves alone from here on: something is wrong with them."""
    committed: dict[str, StoredTopic] = field(default_factory=dict)

    def failed(self, stream: int, line: str) -> None:
        self.skipped.add(stream)
        self.summary.failed(line)


class Compactor:
    """Compacts topics. One call at a time; other processes may do the same work at once."""

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: ObjectStore,
        objects_url: str,
        clock: Clock,
        tables: TableCommits,
        runner: Runner,
        settings: PipelineSettings,
        watcher: Watcher | None = None,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._objects_url = objects_url
        self._clock = clock
        self._tables = tables
        self._runner = runner
        self._settings = settings
        self._watcher = watcher or NoWatcher()
        self._steps = JobSteps(meta, clock)
        self._pins = Pins(meta, clock)
        self._process = uuid4().hex[:8]
        self._thread = ThreadPoolExecutor(1, "headwater-catalog")

    def close(self) -> None:
        """Wait for what runs on the driver's own thread."""
        self._thread.shutdown()

    async def follow(self, names: Collection[str]) -> None:
        """Compact for ever what is large, old or in many pieces; errors are told and outlived."""
        rules = Rules(
            file_bytes=self._settings.file_bytes,
            max_age_ms=self._settings.max_age_ms,
            max_entries=self._settings.max_entries,
        )
        await read_topics(self._meta, names)
        while True:
            try:
                summary = await self._compact(names, rules)
            except (StoreError, KafkaError) as error:
                self._watcher.waiting(str(error))
            else:
                for line in summary.failures:
                    self._watcher.waiting(line)
            await asyncio.sleep(self._settings.interval_ms / 1000)

    async def compact(self, names: Collection[str] = ()) -> Summary:
        """Compact all that is stable of these topics, or of all topics.

        Returns when there is nothing left to do, on jobs of other processes too. Raises
        ``UnknownTopicOrPartition``; ``StoreError`` or ``KafkaError`` where a store fails, after
        which another call goes on where this one ended.
        """
        await read_topics(self._meta, names)
        rules = Rules(file_bytes=self._settings.file_bytes, max_age_ms=0, max_entries=1)
        return await self._compact(names, rules)

    async def _compact(self, names: Collection[str], rules: Rules) -> Summary:
        run = _Run()
        began = time.monotonic()
        while await self._round(names, rules, run):
            pass
        for topic in run.committed.values():
            await self._in_catalog(self._tables.expire, topic, self._clock.now_ms())
        run.summary.seconds = time.monotonic() - began
        return run.summary

    async def _round(self, names: Collection[str], rules: Rules, run: _Run) -> bool:
        """Carry some jobs through; returns whether there may be more to do."""
        # One that was deleted meanwhile is no mistake of the caller's.
        topics = await read_topics(self._meta, names, all_there=False)
        open_jobs = {job.stream: job for job in await self._steps.open_jobs()}
        async with AsyncExitStack() as claims:
            found, others = await self._take_up(topics, open_jobs, run, claims)
            busy = open_jobs.keys() | run.skipped
            found += await self._plan(topics, busy, rules, claims)
            if found:
                await self._carry_through(found, run)
                return True
        if others:
            await asyncio.sleep(CLAIM_POLL_S)
        return others

    async def _take_up(
        self,
        topics: Sequence[StoredTopic],
        open_jobs: dict[int, Job],
        run: _Run,
        claims: AsyncExitStack,
    ) -> tuple[list[_Owned], bool]:
        """Jobs that nobody works on, and whether there are some that others work on.

        The jobs of a topic that was deleted are not among them; they end with its clean-up.
        """
        found, others = [], False
        for topic in topics:
            for stream in topic.streams:
                job = open_jobs.get(stream)
                if job is None or job.kind != KIND or stream in run.skipped:
                    continue
                if await is_claimed(self._meta, job, self._process, self._clock.now_ms()):
                    others = True
                    continue
                await self._claim(job, claims)
                found.append(_Owned(topic, job))
        return found, others

    async def _plan(
        self,
        topics: Sequence[StoredTopic],
        busy: Collection[int],
        rules: Rules,
        claims: AsyncExitStack,
    ) -> list[_Owned]:
        """New jobs, for what has waited longest."""
        now_ms = self._clock.now_ms()
        plans: list[tuple[RangePlan, int, StoredTopic, int]] = []
        for topic in topics:
            if compaction_target(topic.configs) != "parquet":
                continue
            for partition, stream in enumerate(topic.streams):
                if stream in busy:
                    continue
                generation, view = await read_view(self._meta, stream)
                if plan := plan_range(view, rules, now_ms):
                    plans.append((plan, generation, topic, partition))
        plans.sort(key=lambda each: each[0].oldest_ms)
        created = []
        for plan, generation, topic, partition in plans[:ROUND_STREAMS]:
            job = Job(
                id=uuid4().hex,
                kind=KIND,
                stream=topic.streams[partition],
                topic=topic.name,
                topic_id=topic.id,
                partition=partition,
                start=plan.start,
                end=plan.end,
                created_ms=now_ms,
            )
            await self._claim(job, claims)
            opened = await self._steps.create(job, generation)
            if opened is not None and opened.id == job.id:
                self._watcher.step(job, "created")
                created.append(_Owned(topic, job))
        return created

    async def _claim(self, job: Job, claims: AsyncExitStack) -> None:
        name = claim_name(job, self._process)
        await claims.enter_async_context(
            self._pins.held(job.stream, job.start, name, self._settings.claim_ms)
        )

    async def _carry_through(self, found: Sequence[_Owned], run: _Run) -> None:
        found = [
            *(owned for owned in found if owned.job.state != CREATED),
            *await self._write([owned for owned in found if owned.job.state == CREATED], run),
        ]
        found = await self._commit(found, run)
        for owned in found:
            job: Job | None = owned.job
            if job is not None and job.state == ICEBERG_COMMITTED:
                job = await self._steps.swap(job)
                self._watcher.step(owned.job, "swapped")
            if job is not None and job.state == INDEX_SWAPPED:
                await self._steps.finish(job)
                run.summary.finished(job)
                self._watcher.step(job, "finished")

    async def _write(self, found: Sequence[_Owned], run: _Run) -> list[_Owned]:
        """CREATED → PARQUET_WRITTEN, all in one Spark job."""
        tasks: list[bytes] = []
        written: list[_Owned] = []
        waiting: dict[str, _Owned] = {}
        for owned in found:
            own = await self._tasks(owned.job)
            if own:
                tasks += [pack(task) for task in own]
                waiting[owned.job.id] = owned
            elif (later := await self._steps.give_up(owned.job)) is not None:
                written.append(_Owned(owned.topic, later))
        if not tasks:
            return written
        results = await asyncio.to_thread(
            self._runner.run, tasks, lambda done: self._watcher.tasks(done, len(tasks))
        )
        self._watcher.tasks(len(tasks), len(tasks))
        by_job: dict[str, list[RangeResult]] = {}
        for data in results:
            result = msgspec.msgpack.decode(data, type=RangeResult)
            by_job.setdefault(result.job, []).append(result)
            run.summary.chunk_bytes += result.chunk_bytes
            run.summary.task_cpu_seconds += result.cpu_seconds
        for job_id, owned in waiting.items():
            if (fixed := await self._fix(owned, by_job[job_id], run)) is not None:
                written.append(fixed)
        return written

    async def _tasks(self, job: Job) -> list[RangeTask]:
        """One task for each file; none where the range was deleted."""
        layout = await read_layout(self._meta, job.stream)
        entries = await read_entries(
            self._meta, job.stream, job.start, job.end, with_data=True, limit=None
        )
        return [
            RangeTask(
                job=job,
                start=file.start,
                end=file.end,
                entries=list(file.entries),
                keep_from=layout.log_start,
                objects_url=self._objects_url,
            )
            for file in file_ranges(job.start, job.end, entries, self._settings.file_bytes)
        ]

    async def _fix(self, owned: _Owned, results: Sequence[RangeResult], run: _Run) -> _Owned | None:
        """Propose the manifest; the job goes on with the one that was first."""
        job = owned.job
        ordered = sorted(results, key=lambda result: result.start)
        files = [file for result in ordered for file in result.files]
        failure = next((result.failure for result in ordered if result.failure), "")
        if failure:
            await self._steps.discard(job, files, self._objects)
            if await self._steps.get(job.stream) is not None:
                run.failed(job.stream, f"{job.topic}-{job.partition}: {failure}")
            return None
        self._watcher.step(job, "written")
        set_aside = [part for result in ordered for part in result.set_aside]
        fixed = await self._steps.fix(job, files, set_aside)
        if fixed is None or [file.key for file in fixed.files] != [file.key for file in files]:
            await self._steps.discard(job, files, self._objects)
        if fixed is None:
            return None
        self._watcher.step(fixed, "fixed")
        return _Owned(owned.topic, fixed)

    async def _commit(self, found: Sequence[_Owned], run: _Run) -> list[_Owned]:
        """PARQUET_WRITTEN → ICEBERG_COMMITTED, with one snapshot for each table."""
        done = [owned for owned in found if owned.job.state != PARQUET_WRITTEN]
        by_topic: dict[str, list[_Owned]] = {}
        for owned in found:
            if owned.job.state == PARQUET_WRITTEN:
                by_topic.setdefault(owned.topic.id, []).append(owned)
        for group in by_topic.values():
            done += await self._append(group, run)
        return done

    async def _append(self, group: Sequence[_Owned], run: _Run) -> list[_Owned]:
        topic = group[0].topic
        jobs = [owned.job for owned in group]
        try:
            outcome = await self._in_catalog(self._tables.append, topic, jobs)
        except StoreError as error:
            for job in jobs:
                # A topic that was deleted meanwhile took its jobs with it.
                if await self._steps.get(job.stream) is not None:
                    run.failed(job.stream, str(error))
            return []
        for job in jobs:
            if job.id in outcome.refused:
                run.failed(job.stream, f"{job.topic}: {outcome.refused[job.id]}")
        run.committed[topic.id] = topic
        done = []
        for job in jobs:
            if job.id in outcome.landed:
                self._watcher.step(job, "appended")
                marked = await self._steps.mark_committed(job)
                if marked is not None:
                    self._watcher.step(marked, "committed")
                    done.append(_Owned(topic, marked))
        return done

    async def _in_catalog(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the catalog, for as long as it takes to answer."""
        wait = FIRST_WAIT_S
        loop = asyncio.get_running_loop()
        while True:
            try:
                return await loop.run_in_executor(self._thread, lambda: function(*args, **kwargs))
            except CatalogUnavailable as error:
                self._watcher.waiting(str(error))
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)
