"""Every kind of job of the pipeline, each with a topic that has work for it."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.log.jobs.steps import JobSteps
from headwater.log.reclaim.releases import object_keys
from headwater.log.settings import LogSettings
from headwater.pipeline.fsck.cluster_check import ClusterCheck
from headwater.pipeline.fsck.report import NoCheckWatcher
from headwater.pipeline.fsck.table_checks import read_table
from headwater.pipeline.metadata_reads import StoredTopic, read_topics
from headwater.pipeline.upkeep.maintain import keep_tables
from tests.support.pipeline.cluster import PipelineCluster, Row, make_compactor
from tests.support.pipeline.drivers import CLAIM_MS, COMMIT_POINTS, FORGETFUL, POINTS

PARTITIONS = 2
PATIENCE_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of job, and how a topic gets work for it."""

    name: str
    method: str
    """Of the ``Compactor``."""
    configs: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[str] = POINTS
    """Where a driver can be killed in it."""
    has_table: bool = True
    keeps_last: bool = False
    """Whether it takes all records away but the last of each key."""
    from_files: bool = False
    """Whether it works on files of the table."""

    def expected(self, before: Sequence[Row]) -> list[Row]:
        """What a topic holds after the job; records without a key do not survive a cleaning."""
        if not self.keeps_last:
            return list(before)
        last = {(row.partition, row.key): row for row in before if row.key is not None}
        return sorted(last.values(), key=lambda row: row[:2])


COMPACT = JobKind(name="compact", method="compact")
REWRITE = JobKind(name="rewrite", method="rewrite", from_files=True)
CLEAN = JobKind(
    name="clean",
    method="clean",
    configs={"cleanup.policy": "compact,delete"},
    keeps_last=True,
    from_files=True,
)
SEGMENTS = JobKind(
    name="segments",
    method="compact",
    configs={"headwater.compact-to": "segment"},
    points=[point for point in POINTS if point not in (*COMMIT_POINTS, "appended")],
    has_table=False,
)
COPIES = JobKind(
    name="copies",
    method="compact",
    configs={
        "headwater.compact-to": "both",
        "headwater.table.partition-by": "day(timestamp), bucket(2, key)",
    },
)
KINDS = (COMPACT, REWRITE, CLEAN, SEGMENTS, COPIES)


@dataclass(slots=True)
class Subject:
    """A topic of one kind."""

    cluster: PipelineCluster
    kind: JobKind
    topic: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        self.topic = self.topic or self.cluster.create_topic(
            partitions=PARTITIONS, configs=self.kind.configs
        )

    def produce(self, count: int) -> None:
        self.seed += 1
        keyed = self.kind.keeps_last
        self.cluster.produce(
            self.topic, count, partitions=PARTITIONS, seed=self.seed, keys=20 if keyed else None
        )

    async def prepare(self, count: int = 60) -> list[Row]:
        """Make work for one job; returns what the topic holds."""
        self.produce(count)
        if self.kind.from_files:
            await run(self.cluster, "compact", self.topic)
            self.produce(count // 2)
            await run(self.cluster, "compact", self.topic)
        return self.cluster.consume(self.topic)

    async def finish(self) -> None:
        """Finish the open job, as the next run of any kind does."""
        await run(self.cluster, "compact", self.topic)
        if self.kind.from_files:
            await run(self.cluster, self.kind.method, self.topic)

    async def check_agreement(self) -> list[Row]:
        """The table has each record of the log once, and others only below the log's start.

        Returns what the log has.
        """
        log = self.cluster.consume(self.topic)
        if self.kind.has_table:
            table = await self.cluster.table(self.topic)
            places = [row[:2] for row in table]
            assert len(set(places)) == len(places), self.kind.name
            kept = {row[:2] for row in log}
            assert [row for row in table if row[:2] in kept] == log, self.kind.name
            starts = self.cluster.log_starts(self.topic)
            left = [place for place in places if place not in kept]
            assert all(offset < starts[partition] for partition, offset in left), self.kind.name
        return log

    async def check(self, before: Sequence[Row]) -> None:
        """Log and table have these records, as far as they stay, and what came since."""
        after = self.cluster.consume(self.topic)
        expected = self.kind.expected(before)
        places = {row[:2] for row in before}
        assert [row for row in after if row[:2] in places] == expected, self.kind.name
        if self.kind.has_table:
            assert await self.cluster.table(self.topic) == after, self.kind.name


async def run(cluster: PipelineCluster, method: str, *topics: str) -> None:
    """Run a driver here, to its end."""
    async with cluster.open(FORGETFUL) as place:
        compactor = make_compactor(place, claim_ms=CLAIM_MS)
        try:
            summary = await getattr(compactor, method)(topics)
        finally:
            compactor.close()
    assert not summary.failures, summary.failures


async def nothing_is_left(cluster: PipelineCluster, *topics: str) -> None:
    """Wait until no job is open and every object of these topics is one that log or table names.

    The check of the whole cluster then finds nothing wrong with them either.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    for topic in topics:
        while left := await _left(cluster, topic):
            assert time.monotonic() < deadline, (topic, left)
            await asyncio.sleep(0.2)
    async with cluster.open(FORGETFUL) as place:
        found = await read_topics(place.meta, topics)
        report = await ClusterCheck(place, LogSettings()).check()
    ours = {name for topic in found for name in (topic.name, topic.id)}
    findings = [each for each in report.findings if any(name in each.subject for name in ours)]
    assert not findings, findings


async def _left(cluster: PipelineCluster, topic: str) -> list[str]:
    """Open jobs, objects that nothing names, and names of objects that are not there."""
    async with cluster.open(FORGETFUL) as place:
        (found,) = await read_topics(place.meta, [topic])
        jobs = await JobSteps(place.meta, place.clock).open_jobs()
        left = [f"job {job.id}" for job in jobs if job.topic_id == found.id]
        assert not (await keep_tables(place, [topic], NoCheckWatcher())).failures
        table = read_table(place, found)
    named = {
        key
        for entry in await cluster.entries(topic)
        if found.id in entry.key
        for key in object_keys(entry.kind, entry.key)
    }
    named |= set(() if table is None else table.files)
    return [*left, *sorted(_objects(cluster, found) ^ named)]


def _objects(cluster: PipelineCluster, topic: StoredTopic) -> set[str]:
    root = cluster.data / "objects"
    folder = root / "tables" / topic.id
    return {
        str(path.relative_to(root))
        for part in ("data", "segments")
        for path in folder.glob(f"{part}/*/*")
    }
