"""``headwater fsck``: a check of a cluster, also while brokers run.

The structural check needs no Spark. It checks that indexes are dense, that objects exist with the
right size, that file footers match the index, that object records protect every referenced object,
that tables and log have the same files, and that jobs can continue. A deep check reads every record
on Spark.

A check changes nothing; ``repair`` does.
"""

import asyncio
import time
from typing import Final

from headwater.errors import CatalogUnavailable, TableMismatch
from headwater.log.formats.metadata_values import ADOPTED, DeletedTopic, Release
from headwater.log.jobs.jobs import CREATED, job_of_file
from headwater.log.jobs.steps import JobSteps
from headwater.log.reclaim.pins import Pins
from headwater.log.restore.snapshots import horizon
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.values import decode
from headwater.pipeline.cluster_stores import ClusterStores
from headwater.pipeline.fsck.index_checks import job_problems
from headwater.pipeline.fsck.objects import (
    METADATA,
    WAL_PREFIX,
    Inventory,
    is_leaked,
    job_references,
    orphan_reason,
    records,
    references,
    released,
    stored_entries,
)
from headwater.pipeline.fsck.record_check import check_records
from headwater.pipeline.fsck.report import CheckWatcher, FindingKind, NoCheckWatcher, Report
from headwater.pipeline.fsck.stream_checks import StreamChecks
from headwater.pipeline.fsck.table_checks import LogCopy, read_table, table_problems
from headwater.pipeline.metadata_reads import StoredTopic, is_claimed, read_topics
from headwater.pipeline.spark.runner import Runner
from headwater.topic_config.topic import compaction_target

TABLE_ATTEMPTS: Final = 5
"""Attempts to compare a table and a log that change during the check."""
PAUSE_S: Final = 0.3


class ClusterCheck:
    """Checks a cluster; with ``runner`` the check is deep.

    Raises ``StoreError`` or ``KafkaError`` if a store fails, which is no finding about the data.
    """

    def __init__(
        self,
        stores: ClusterStores,
        settings: LogSettings,
        *,
        runner: Runner | None = None,
        watcher: CheckWatcher | None = None,
    ) -> None:
        self._stores = stores
        self._meta = stores.meta
        self._settings = settings
        self._runner = runner
        self._watcher = watcher or NoCheckWatcher()
        self._steps = JobSteps(stores.meta, stores.clock)

    async def check(self) -> Report:
        """Run the check."""
        began = time.monotonic()
        report = Report()
        self._watcher.at("Listing objects", 0, 0)
        # Before the index is read: then a listed object without a reference is no new object.
        inventory = Inventory(self._stores.objects)
        await inventory.read()
        checks = StreamChecks(self._stores, inventory, report)
        topics = await read_topics(self._meta, ())
        await self._check_topics(topics, checks, report)
        await self._check_jobs(topics, checks, report)
        await self._check_objects(inventory, checks, report)
        await self._check_releases(report)
        if self._runner is not None:
            streams = {
                stream: (f"{topic.name}-{partition}", partition)
                for topic in topics
                for partition, stream in enumerate(topic.streams)
            }
            await check_records(self._stores, streams, checks, self._runner, report, self._watcher)
        report.seconds = time.monotonic() - began
        return report

    async def _check_topics(
        self, topics: list[StoredTopic], checks: StreamChecks, report: Report
    ) -> None:
        total = sum(len(topic.streams) for topic in topics)
        for topic in topics:
            report.topics += 1
            log = LogCopy()
            for partition, stream in enumerate(topic.streams):
                self._watcher.at("Checking partitions", report.streams, total)
                report.streams += 1
                copy = await checks.check(stream, f"{topic.name}-{partition}")
                if copy is not None:
                    log.add(stream, partition, copy.layout.log_start, copy.entries)
            target = compaction_target(topic.configs)
            if target == "both":
                await self._check_copy(topic, checks, report)
            elif target == "parquet" or log.entries:
                await self._check_table(topic, log, checks, report)

    async def _check_table(
        self, topic: StoredTopic, log: LogCopy, checks: StreamChecks, report: Report
    ) -> None:
        for attempt in range(TABLE_ATTEMPTS):
            log.rows = checks.rows
            try:
                table = await asyncio.to_thread(read_table, self._stores, topic)
            except CatalogUnavailable as error:
                report.add(FindingKind.TABLE, topic.name, f"its table was not compared: {error}")
                return
            except TableMismatch as error:
                report.add(FindingKind.TABLE, topic.name, str(error))
                return
            log.jobs = [job for job in await self._steps.open_jobs() if job.topic_id == topic.id]
            problems = list(table_problems(table, log))
            if not problems:
                report.tables += table is not None
                return
            if attempt < TABLE_ATTEMPTS - 1:
                # A job may have ended in between, so read both again.
                await asyncio.sleep(PAUSE_S)
                log = await self._log_copy(topic, checks)
        if topic.id in {each.id for each in await read_topics(self._meta, ())}:
            name = topic.name if table is None else table.name
            for problem in problems:
                report.add(FindingKind.TABLE, name, problem)

    async def _check_copy(self, topic: StoredTopic, checks: StreamChecks, report: Report) -> None:
        """Check a table that is a copy: its files exist and have the right size."""
        try:
            table = await asyncio.to_thread(read_table, self._stores, topic)
        except (CatalogUnavailable, TableMismatch) as error:
            report.add(FindingKind.TABLE, topic.name, str(error))
            return
        if table is None:
            return
        report.tables += 1
        for key, file in table.files.items():
            checks.used.update((key, 0, stream) for stream in topic.streams)
            size = await checks.size(key)
            # A missing file may have been removed from the table just now, so read it again.
            again = (
                None
                if size is not None
                else await asyncio.to_thread(read_table, self._stores, topic)
            )
            if size is None and again is not None and key in again.files:
                report.add(FindingKind.TABLE, table.name, f"object {key} is missing")
            elif size is not None and size != file.size:
                problem = f"it lists {key} with {file.size} bytes, and the object has {size}"
                report.add(FindingKind.TABLE, table.name, problem)

    async def _log_copy(self, topic: StoredTopic, checks: StreamChecks) -> LogCopy:
        log = LogCopy()
        for partition, stream in enumerate(topic.streams):
            copy = await checks.copy(stream)
            if copy is not None:
                log.add(stream, partition, copy.layout.log_start, copy.entries)
        return log

    async def _check_jobs(
        self, topics: list[StoredTopic], checks: StreamChecks, report: Report
    ) -> None:
        owners = {
            stream: (topic, partition)
            for topic in topics
            for partition, stream in enumerate(topic.streams)
        }
        for job in await self._steps.open_jobs():
            report.jobs += 1
            name = f"{job.kind} job {job.id} of {job.topic}-{job.partition}"
            checks.used.update(job_references(job))
            owner = owners.get(job.stream)
            if owner is None or (owner[0].id, owner[1]) != (job.topic_id, job.partition):
                deleted = await self._meta.get(keys.tail(0, job.stream))
                if owner is not None or deleted is None:
                    report.add(FindingKind.JOB, name, f"stream {job.stream} is not its topic's")
                continue
            copy = await checks.copy(job.stream)
            there = await self._steps.get(job.stream)
            if copy is None or there is None or there.id != job.id:
                continue
            for problem in job_problems(there, copy):
                report.add(FindingKind.JOB, name, problem)
            if not await is_claimed(self._meta, job, "", self._stores.clock.now_ms()):
                report.add(FindingKind.JOB, name, "no process works on it", repairable=True)

    async def _check_objects(
        self, inventory: Inventory, checks: StreamChecks, report: Report
    ) -> None:
        used = checks.used
        async for entry in scan_all(self._meta, keys.DELETED_TOPICS):
            for stream in decode(DeletedTopic, entry.value).streams:
                async for index_entry in stored_entries(self._meta, stream):
                    used.update(references(stream, index_entry))
        used |= await released(self._meta)
        recorded: set[str] = set()
        async for key, part, record in records(self._meta):
            recorded.add(key)
            for stream in record.live:
                if stream == ADOPTED:
                    continue  # a restore kept it for the table
                reference = (key, part, stream)
                if reference not in used and await is_leaked(self._meta, reference):
                    problem = (
                        f"its part {part} is kept for stream {stream}, which does not refer to it"
                    )
                    report.add(FindingKind.LEAKED, key, problem)
        await self._check_unrecorded(inventory, recorded, report)

    async def _check_unrecorded(
        self, inventory: Inventory, recorded: set[str], report: Report
    ) -> None:
        now_ms = self._stores.clock.now_ms()
        for info in inventory.objects.values():
            report.objects += 1
            report.object_bytes += info.size
            if info.key in recorded or METADATA in info.key:
                continue
            if not info.key.startswith(WAL_PREFIX) and job_of_file(info.key) is None:
                report.add(
                    FindingKind.UNKNOWN,
                    info.key,
                    "its name is not one that Headwater gives to objects",
                )
                continue
            writing = {job.id for job in await self._steps.open_jobs() if job.state == CREATED}
            orphan, reason = await orphan_reason(self._meta, info.key, writing)
            # Read last, so that a manifest or commit before the reads above is noticed.
            if await self._has_record(info.key):
                continue
            if orphan and info.modified_ms + self._settings.orphan_grace_ms <= now_ms:
                if await inventory.still_exists(info.key):
                    report.add(FindingKind.ORPHAN, info.key, reason)
            else:
                report.waiting += 1

    async def _has_record(self, key: str) -> bool:
        prefix = f"{keys.objects(0)}{key}/"
        async for _ in scan_all(self._meta, prefix):
            return True
        return False

    async def _check_releases(self, report: Report) -> None:
        """Find released objects that brokers should have deleted by now."""
        pins = Pins(self._meta, self._stores.clock)
        now_ms = self._stores.clock.now_ms()
        late_ms = self._settings.gc_grace_ms + 2 * self._settings.gc_interval_ms
        needed_after = await horizon(self._meta)
        async for entry in scan_all(self._meta, keys.releases(0)):
            noted = decode(Release, entry.value)
            report.waiting += len(noted.chunks)
            if noted.released_ms + late_ms > now_ms:
                continue
            if noted.stream and await pins.hold(noted.stream, noted.end):
                continue
            if needed_after is not None and entry.revision > needed_after:
                continue  # a snapshot of the metadata refers to it
            subject = f"stream {noted.stream}"
            objects = sorted({key for key, _, _ in noted.chunks})
            problem = f"{objects[0]} and {len(objects) - 1} more are overdue for deletion"
            if await self._meta.get(entry.key) is not None:
                report.add(FindingKind.RELEASE, subject, problem)
