"""Carrying jobs through their steps, many at once; each may begin at any of them.

What is found done is passed over: by a process that died, or by a rival that was faster.
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
    """Where a saga's blocking calls run."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run tasks, which may take long."""
        ...

    async def ask_catalog(self, question: Callable[[], T]) -> T:
        """Ask the catalog; one question at a time."""
        ...

    def close(self) -> None:
        """Wait for the catalog's last answer."""
        ...


class ProcessThreads:
    """SagaThreads of this process: the loop's, and one for the catalog."""

    def __init__(self) -> None:
        self._catalog = ThreadPoolExecutor(1, "headwater-catalog")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)

    async def ask_catalog(self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._catalog, question)

    def close(self) -> None:
        self._catalog.shutdown()


@dataclass(frozen=True, slots=True)
class OwnedJob:
    """A job and the topic that it belongs to."""

    topic: StoredTopic
    job: Job


@dataclass(slots=True)
class Run:
    """What one call of the driver has come to so far."""

    summary: RunSummary = field(default_factory=RunSummary)
    skipped: set[int] = field(default_factory=set)
    """Streams that are left alone from here on: something is wrong with them."""
    committed: dict[str, StoredTopic] = field(default_factory=dict)

    def failed(self, stream: int, line: str) -> None:
        self.skipped.add(stream)
        self.summary.failed(line)


class Saga:
    """Runs the steps of jobs. Raises ``StoreError`` or ``KafkaError`` where a store fails."""

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
        """The topics whose tables are of the cluster's restore epoch."""
        self._threads = threads

    async def keep_tables(self, topics: Sequence[StoredTopic]) -> None:
        """Keep the history of these tables short, and let files go that left the log.

        A table that is not as it should be fails its next commit; here it is passed over.
        """
        for topic in topics:
            with contextlib.suppress(TableMismatch):
                await self._in_catalog(self._tables.expire, topic, self._clock.now_ms())
        with contextlib.suppress(TableMismatch):
            await release_table_files(self._meta, self._clock, self._tables, self._in_catalog)

    async def carry_through(self, found: Sequence[OwnedJob], run: Run) -> None:
        """Bring jobs to their end; what fails is noted in ``run`` and stays for a later call."""
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
        """CREATED → PARQUET_WRITTEN, all in one Spark job."""
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
        """One task for each file; none where the range was deleted."""
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
            # Below a range that does not begin where the log does is something of older values.
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
            # The commit will be refused for that, and says so.
            return table_partitioning(topic.configs)

    async def _fix(
        self, owned: OwnedJob, results: Sequence[RangeResult], run: Run
    ) -> OwnedJob | None:
        """Propose the manifest; the job goes on with the one that was first."""
        job = owned.job
        ordered = sorted(results, key=lambda result: result.start)
        files = [file for result in ordered for file in result.files]
        copies = [file for result in ordered for file in result.copies]
        failure = next((result.failure for result in ordered if result.failure), "")
        if failure:
            await self._steps.discard(job, [*files, *copies], self._reclaimer)
            if job.kind in REPLACING:
                # The log is whole without it, and compaction must not wait behind it.
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
        """PARQUET_WRITTEN → ICEBERG_COMMITTED, with one snapshot for each table."""
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
                    done += await self._into_table(some, run)
        return done

    async def _into_table(self, group: Sequence[OwnedJob], run: Run) -> list[OwnedJob]:
        """Bring the manifests of one topic's jobs into its table; all append or all rewrite."""
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
                    done.append(OwnedJob(topic, marked))
        return done

    async def _rewrite(self, topic: StoredTopic, jobs: Sequence[Job]) -> "CommitOutcome":
        for attempt in range(REWRITE_ATTEMPTS):
            gone: set[str] = set()
            for job in jobs:
                entries = await read_entries(self._meta, job.stream, job.start, job.end, limit=None)
                # A trim took the others out of the log, and then out of the table.
                kept = {entry.key for entry in entries if entry.max_timestamp >= 0}
                gone.update(key for key in job.inputs if key not in kept)
            outcome = await self._in_catalog(self._tables.rewrite, topic, jobs, gone)
            # Refused because a trim went on in between: the index is read again.
            if not outcome.refused or attempt == REWRITE_ATTEMPTS - 1:
                break
        return outcome

    async def _in_catalog(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the catalog, for as long as it takes to answer."""
        return await retry(
            lambda: self._threads.ask_catalog(lambda: function(*args, **kwargs)),
            on=CatalogUnavailable,
            pauses=CATALOG_BACKOFF.pauses(),
            failed=lambda error: self._watcher.waiting(str(error)),
        )
