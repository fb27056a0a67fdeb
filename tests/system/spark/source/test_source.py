"""The batch data source on Spark, over what real clients produced through a real broker."""

import pytest

from headwater.log.formats.metadata_values import INLINE, PARQUET, WAL
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings.spark_source import pins, reader, rows
from tests.system.spark.conftest import SharedSpark


async def test_a_query_reads_inline_wal_and_parquet_entries_as_they_were_produced(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 1000, partitions=2, seed=1)
    await cluster.compact(topic)
    cluster.produce(topic, 800, partitions=2, seed=2)
    cluster.produce(topic, 10, partitions=2, seed=3)
    kinds = {entry.kind for entry in await cluster.entries(topic)}
    assert PARQUET in kinds
    assert kinds & {INLINE, WAL}
    frame = reader(spark, cluster, topic=topic, maxPartitionBytes="20000").load()
    assert rows(frame) == cluster.consume(topic)
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {topic}
    assert await pins(cluster, topic) == []


async def test_a_frame_is_a_snapshot_that_survives_compaction_and_collection_of_its_objects(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 300, seed=4)
    frame = reader(spark, cluster, topic=topic).load()
    before = rows(frame)
    await cluster.compact(topic)
    cluster.produce(topic, 100, seed=5)
    assert rows(frame) == before
    assert rows(reader(spark, cluster, topic=topic).load()) == cluster.consume(topic)


def test_conditions_choose_what_is_read_where_the_user_allows_it(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 400, partitions=2, seed=6)
    wanted = "partition = 1 AND offset >= 10 AND offset < 30"
    pushed = reader(spark, cluster, topic=topic, pushFilters="true").load().filter(wanted)
    assert pushed.rdd.getNumPartitions() == 1
    assert [row.offset for row in rows(pushed)] == list(range(10, 30))


def test_one_frame_serves_queries_with_other_conditions(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 200, seed=7)
    frame = reader(spark, cluster, topic=topic).load()
    assert frame.filter("offset < 5").count() == 5
    assert frame.count() == 200
    assert frame.filter("offset < 5").union(frame.filter("offset >= 190")).count() == 15


def test_a_schema_with_fewer_columns_reads_those(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 50, seed=8)
    found = reader(spark, cluster, topic=topic).schema("value binary, offset long").load()
    assert [tuple(row) for row in found.orderBy("offset").collect()] == [
        (row.value, row.offset) for row in cluster.consume(topic)
    ]


def test_several_topics_and_a_pattern_are_read_together(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topics = [cluster.create_topic(f"many-{number}") for number in range(2)]
    for topic in topics:
        cluster.produce(topic, 20)
    for options in ({"topic": ",".join(topics)}, {"topicPattern": "many-.*"}):
        counted = reader(spark, cluster, **options).load().groupBy("topic").count().collect()
        assert {row["topic"]: row["count"] for row in counted} == dict.fromkeys(topics, 20)


def test_an_unknown_topic_is_named_in_one_line(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    from pyspark.errors import AnalysisException

    cluster.create_topic("receipts")
    with pytest.raises(AnalysisException, match="'receipt' does not exist; did you mean receipts"):
        reader(spark, cluster, topic="receipt").load().count()
