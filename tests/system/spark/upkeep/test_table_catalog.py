"""The tables of a cluster do not depend on the directory of the process that looks."""

from dataclasses import replace
from pathlib import Path

from headwater.pipeline.cluster_stores import open_cluster_stores
from headwater.pipeline.metadata_reads import read_topics
from headwater.tables.settings import TableSettings
from tests.support.pipeline.cluster import PipelineCluster, make_compactor, table_rows


async def test_a_table_is_compacted_from_any_directory(
    cluster: PipelineCluster, tmp_path: Path
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 50)
    await cluster.compact(topic)
    cluster.produce(topic, 50, seed=1)
    elsewhere = replace(cluster.address, data=tmp_path)
    async with open_cluster_stores(elsewhere, TableSettings()) as place:
        compactor = make_compactor(place)
        assert (await compactor.compact([topic])).failures == []
        compactor.close()
        (found,) = await read_topics(place.meta, [topic])
        assert table_rows(place, found) == cluster.consume(topic)
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_a_table_in_a_nested_namespace_goes_with_its_topic(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs={"headwater.table.name": "lake.raw.nested"})
    cluster.produce(topic, 50)
    await cluster.compact(topic)
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        assert found.id in place.tables.files_of_deleted_topics([])
        assert place.tables.drop(found.id)
        assert not place.tables.catalog.table_exists("lake.raw.nested")
