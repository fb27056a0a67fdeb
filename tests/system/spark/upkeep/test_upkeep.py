"""Files that left the log leave their table, and then the object store."""

from headwater.log.formats.metadata_values import PARQUET
from headwater.pipeline.compaction.summary import RunSummary
from headwater.tables.settings import TableSettings
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.waiting import eventually

FORGETFUL = TableSettings(keep_snapshots=1, snapshot_age_ms=0, max_snapshots=1)


async def compact(cluster: PipelineCluster, *topics: str) -> RunSummary:
    async with cluster.open(FORGETFUL) as place:
        compactor = make_compactor(place)
        try:
            return await compactor.compact(topics)
        finally:
            compactor.close()


async def test_files_below_log_start_leave_the_table_and_are_deleted(
    cluster: PipelineCluster,
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 300)
    await compact(cluster, topic)
    cluster.produce(topic, 300, seed=1)
    await compact(cluster, topic)
    first = (await cluster.entries(topic))[0]
    assert first.kind == PARQUET
    cluster.delete_records(topic, 0, first.end)

    async def trimmed() -> bool:
        return (await cluster.entries(topic))[0].start == first.end

    await eventually(trimmed)

    async def deleted() -> bool:
        cluster.produce(topic, 5, seed=2)
        await compact(cluster, topic)
        return first.key not in cluster.data_files()

    await eventually(deleted)
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_the_table_of_a_deleted_topic_goes_with_its_files(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    await compact(cluster, topic)
    files = {entry.key for entry in await cluster.entries(topic)}
    assert files <= cluster.data_files()
    async with cluster.open() as place:
        assert place.tables.catalog.table_exists(("headwater", topic))
    cluster.delete_topic(topic)

    async def gone() -> bool:
        await compact(cluster)
        return not files & cluster.data_files()

    await eventually(gone)
    async with cluster.open() as place:
        assert not place.tables.catalog.table_exists(("headwater", topic))
