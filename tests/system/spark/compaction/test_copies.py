"""Topics compacted to ``both``: segments are the log, and the partitioned table is a copy."""

from headwater.log.formats.metadata_values import SEGMENT
from headwater.log.settings import LogSettings
from headwater.pipeline.fsck.cluster_check import ClusterCheck
from headwater.pipeline.fsck.report import NoCheckWatcher
from headwater.pipeline.metadata_reads import read_topics
from headwater.pipeline.upkeep.maintain import keep_tables
from headwater.tables.settings import TableSettings
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.waiting import eventually
from tests.system.spark.conftest import SharedSpark

CONFIGS = {
    "headwater.compact-to": "both",
    "headwater.table.partition-by": "day(timestamp), bucket(2, key)",
}


async def copies(cluster: PipelineCluster, topic: str) -> set[str]:
    """The files of a topic's copy that are there."""
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        return {key for key in cluster.data_files() if f"/{found.id}/" in key}


async def maintain(cluster: PipelineCluster) -> None:
    async with cluster.open(TableSettings(snapshot_age_ms=0)) as place:
        assert not (await keep_tables(place, (), NoCheckWatcher())).failures


async def findings(cluster: PipelineCluster, topic: str) -> list[str]:
    async with cluster.open() as place:
        report = await ClusterCheck(place, LogSettings()).check()
        (found,) = await read_topics(place.meta, [topic])
        return [
            each.problem
            for each in report.findings
            if topic in each.subject or found.id in each.subject
        ]


async def test_log_and_copy_are_equal(cluster: PipelineCluster, spark: SharedSpark) -> None:
    topic = cluster.create_topic(partitions=2, configs=CONFIGS)
    cluster.produce(topic, 1000, partitions=2)
    expected = cluster.consume(topic)
    summary = await cluster.compact(topic, runner=spark)
    assert (summary.records, summary.failures) == (1000, [])
    assert {entry.kind for entry in await cluster.entries(topic)} == {SEGMENT}
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected
    assert len(await copies(cluster, topic)) > 4
    assert await findings(cluster, topic) == []
    cluster.produce(topic, 100, partitions=2, seed=1)
    await cluster.compact(topic)
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_copies_leave_with_the_records_that_they_hold(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    before = await copies(cluster, topic)
    (entry,) = await cluster.entries(topic)
    cluster.produce(topic, 50, seed=1)
    await cluster.compact(topic)
    cluster.delete_records(topic, 0, entry.end)

    async def gone() -> bool:
        await maintain(cluster)
        return not before & cluster.data_files()

    await eventually(gone)
    assert await cluster.table(topic) == cluster.consume(topic)
    assert await findings(cluster, topic) == []


async def test_copies_leave_with_their_topic(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs=CONFIGS)
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    before = await copies(cluster, topic)
    assert before
    cluster.delete_topic(topic)

    async def gone() -> bool:
        await maintain(cluster)
        return not before & cluster.data_files()

    await eventually(gone)
    async with cluster.open() as place:
        assert not place.tables.catalog.table_exists(("headwater", topic))
