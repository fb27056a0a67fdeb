"""Running jobs through their steps, many jobs together. Each job may begin at any step.

Steps that another process has already done are skipped.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, ParamSpec, Protocol, TypeVar

import msgspec

from headwater.clock import Clock
from headwater.errors import CatalogUnavailable, StoreError, TableMismatch
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.jobs.jobs import (
    CREATED,
    ICEBERG_COMMITTED,
    INDEX_SWAPPED,
    PARQUET_WRITTEN,
    Job,
    ManifestTooLarge,
)
from headwater.log.jobs.steps import JobSteps
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.meta.store import MetadataStore
from headwater.objects.store import ObjectStore
from headwater.pipeline.compaction.planner import BOTH, CLEAN, REPLACING, SEGMENTS, file_ranges
from headwater.pipeline.compaction.range_task import KeyCompaction, RangeResult, RangeTask, pack
from headwater.pipeline.compaction.summary import RunSummary, Watcher
from headwater.pipeline.compaction.table_commits import TableCommits
from headwater.pipeline.metadata_reads import StoredTopic, read_entries, read_holes, read_layout
from headwater.pipeline.spark.runner import Runner
from headwater.pipeline.upkeep.key_compaction_plan import clean_ranges
from headwater.pipeline.upkeep.table_releases import release_table_files
from headwater.pipeline.upkeep.table_restores import settle_table
from headwater.retry import Backoff, retry
from headwater.topic_config.topic import number, table_partitioning

if TYPE_CHECKING:
    from headwater.tables.commit.changes import CommitOutcome

CATALOG_BACKOFF: Final = Backoff(first=0.5, longest=15.0)
REWRITE_ATTEMPTS: Final = 5

P = ParamSpec("P")
T = TypeVar("T")


class SagaThreads(Protocol):
    """Threads for the blocking calls of a saga."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run Spark tasks, which may take long."""
        ...

    async def call_catalog(self, call: Callable[[], T]) -> T:
        """Call the catalog; one call at a time."""
        ...

    def close(self) -> None:
        """Wait for the last call of the catalog."""
        ...


class ProcessThreads:
    """``SagaThreads`` of one process: the event loop's threads, and one thread for the catalog."""

    def __init__(self) -> None:
        self._catalog = ThreadPoolExecutor(1, "headwater-catalog")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def call_catalog(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._catalog, call)

    def close(self) -> None:
        self._catalog.shutdown()


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job and its topic."""

    topic: StoredTopic
    job: Job


@dataclass(slots=True)
class Run:
    """The state of one run of the driver."""

    summary: RunSummary = field(default_factory=RunSummary)
    skipped: set[int] = field(default_factory=set)
    """Streams with failed jobs, which this run does not touch again."""
    committed: dict[str, StoredTopic] = field(default_factory=dict)

    def failed(self, stream: int, line: str) -> None:
        self.skipped.add(stream)
        self.summary.failed(line)


class Saga:
    """Runs the steps of jobs. Raises ``StoreError`` or ``KafkaError`` if a store fails."""

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
        file_bytes: int,
        watcher: Watcher,
        threads: SagaThreads,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._reclaimer = reclaimer
        self._objects_url = objects_url
        self._clock = clock
        self._tables = tables
        self._runner = runner
        self._file_bytes = file_bytes
        self._watcher = watcher
        self._steps = JobSteps(meta, clock)
        self._settled: set[str] = set()
        """Ids of topics whose tables have the cluster's restore epoch."""
        self._threads = threads

    async def keep_tables(self, topics: Sequence[StoredTopic]) -> None:
        """Expire snapshots of these tables, and release files that left the log.

        A table that does not match its topic is skipped; its next commit will report it.
        """
        for topic in topics:
            with contextlib.suppress(TableMismatch):
                await self._in_catalog(self._tables.expire, topic, self._clock.now_ms())
        with contextlib.suppress(TableMismatch):
            await release_table_files(self._meta, self._clock, self._tables, self._in_catalog)

    async def run_jobs(self, found: Sequence[OwnedJob], run: Run) -> None:
        """Finish jobs. A failure is noted in ``run``, and the job stays for a later call."""
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

    async def _write(self, found: Sequence[OwnedJob], run: Run) -> list[OwnedJob]:
        """CREATED → PARQUET_WRITTEN, for all jobs in one Spark job."""
        tasks: list[bytes] = []
        written: list[OwnedJob] = []
        waiting: dict[str, OwnedJob] = {}
        for owned in found:
            own = await self._tasks(owned)
            if own:
                tasks += [pack(task) for task in own]
                waiting[owned.job.id] = owned
            elif (later := await self._steps.give_up(owned.job)) is not None:
                written.append(OwnedJob(owned.topic, later))
        if not tasks:
            return written
        results = await self._threads.run(
            lambda: self._runner.run(tasks, lambda done: self._watcher.tasks(done, len(tasks)))
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

    async def _tasks(self, owned: OwnedJob) -> list[RangeTask]:
        """One task for each file; none if the range was deleted."""
        job = owned.job
        layout = await read_layout(self._meta, job.stream)
        entries = await read_entries(
            self._meta, job.stream, job.start, job.end, with_data=True, limit=None
        )
        if job.kind == CLEAN:
            return self._clean_tasks(owned, layout.log_start, entries)
        partitioning = await self._partitioning(owned.topic) if job.kind == BOTH else ""
        return [
            RangeTask(
                job=job,
                start=file.start,
                end=file.end,
                entries=list(file.entries),
                keep_from=layout.log_start,
                objects_url=self._objects_url,
                partitioning=partitioning,
            )
            for file in file_ranges(job.start, job.end, entries, self._file_bytes)
        ]

    def _clean_tasks(
        self, owned: OwnedJob, log_start: int, entries: Sequence[IndexEntry]
    ) -> list[RangeTask]:
        job, now_ms = owned.job, self._clock.now_ms()
        rules = KeyCompaction(
            dirty=[entry for entry in entries if not entry.delete_horizon_ms],
            now_ms=now_ms,
            horizon_ms=now_ms + number(owned.topic.configs, "delete.retention.ms"),
            # Only at the log start are there no older values below the range.
            drops_tombstones=job.start <= log_start,
        )
        return [
            RangeTask(
                job=job,
                start=file.start,
                end=file.end,
                entries=list(file.entries),
                keep_from=log_start,
                objects_url=self._objects_url,
                key_compaction=rules,
            )
            for file in clean_ranges(job.start, job.end, entries, self._file_bytes, now_ms)
        ]

    async def _partitioning(self, topic: StoredTopic) -> str:
        try:
            return await self._in_catalog(self._tables.partitioning, topic)
        except TableMismatch:
            # The commit will be refused for the same reason.
            return table_partitioning(topic.configs)

    async def _fix(
        self, owned: OwnedJob, results: Sequence[RangeResult], run: Run
    ) -> OwnedJob | None:
        """Propose the manifest. The job continues with the first one that was proposed."""
        job = owned.job
        ordered = sorted(results, key=lambda result: result.start)
        files = [file for result in ordered for file in result.files]
        copies = [file for result in ordered for file in result.copies]
        failure = next((result.failure for result in ordered if result.failure), "")
        if failure:
            await self._steps.discard(job, [*files, *copies], self._reclaimer)
            if job.kind in REPLACING:
                # The log is complete without this job, and compaction must not wait for it.
                await self._steps.give_up(job)
                run.failed(job.stream, f"{job.topic}-{job.partition}: {failure}")
            elif await self._steps.get(job.stream) is not None:
                run.failed(job.stream, f"{job.topic}-{job.partition}: {failure}")
            return None
        self._watcher.step(job, "written")
        set_aside = [part for result in ordered for part in result.set_aside]
        try:
            fixed = await self._steps.fix(job, files, set_aside, copies)
        except ManifestTooLarge as error:
            await self._steps.give_up(job)
            run.failed(job.stream, f"{job.topic}-{job.partition}: {error}")
            fixed = None
        if fixed is None or [file.key for file in fixed.files] != [file.key for file in files]:
            await self._steps.discard(job, [*files, *copies], self._reclaimer)
        if fixed is None:
            return None
        self._watcher.step(fixed, "fixed")
        return OwnedJob(owned.topic, fixed)

    async def _commit(self, found: Sequence[OwnedJob], run: Run) -> list[OwnedJob]:
        """PARQUET_WRITTEN → ICEBERG_COMMITTED, with one table snapshot per table."""
        done = [owned for owned in found if owned.job.state != PARQUET_WRITTEN]
        by_topic: dict[str, list[OwnedJob]] = {}
        for owned in found:
            if owned.job.state == PARQUET_WRITTEN and owned.job.kind == SEGMENTS:
                if (marked := await self._steps.mark_committed(owned.job)) is not None:
                    self._watcher.step(marked, "committed")
                    done.append(OwnedJob(owned.topic, marked))
            elif owned.job.state == PARQUET_WRITTEN:
                by_topic.setdefault(owned.topic.id, []).append(owned)
        for group in by_topic.values():
            for rewrites in (False, True):
                some = [owned for owned in group if (owned.job.kind in REPLACING) == rewrites]
                if some:
                    done += await self._commit_to_table(some, run)
        return done

    async def _commit_to_table(self, group: Sequence[OwnedJob], run: Run) -> list[OwnedJob]:
        """Commit the manifests of a topic's jobs to its table. All jobs append, or all replace."""
        topic = group[0].topic
        jobs = [owned.job for owned in group]
        try:
            if topic.id not in self._settled:
                await settle_table(self._meta, self._objects, topic, self._tables, self._in_catalog)
                self._settled.add(topic.id)
            if jobs[0].kind in REPLACING:
                outcome = await self._rewrite(topic, jobs)
            else:
                holes = {job.id: await read_holes(self._meta, job) for job in jobs}
                outcome = await self._in_catalog(self._tables.append, topic, jobs, holes)
        except StoreError as error:
            for job in jobs:
                # If the topic was deleted, its jobs are gone, too.
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
                    done.append(OwnedJob(topic, marked))
        return done

    async def _rewrite(self, topic: StoredTopic, jobs: Sequence[Job]) -> "CommitOutcome":
        for attempt in range(REWRITE_ATTEMPTS):
            gone: set[str] = set()
            for job in jobs:
                entries = await read_entries(self._meta, job.stream, job.start, job.end, limit=None)
                # A trim removed the other files from the log, and then from the table.
                kept = {entry.key for entry in entries if entry.max_timestamp >= 0}
                gone.update(key for key in job.inputs if key not in kept)
            outcome = await self._in_catalog(self._tables.rewrite, topic, jobs, gone)
            # A concurrent trim may be the reason of a refusal, so read the index again.
            if not outcome.refused or attempt == REWRITE_ATTEMPTS - 1:
                break
        return outcome

    async def _in_catalog(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the catalog, and retry until it answers."""
        return await retry(
            lambda: self._threads.call_catalog(lambda: function(*args, **kwargs)),
            on=CatalogUnavailable,
            pauses=CATALOG_BACKOFF.pauses(),
            failed=lambda error: self._watcher.waiting(str(error)),
        )
