"""A mixed topic read in every way, before and after compaction."""

from typing import Any

import pyarrow as pa

from headwater.log.formats.metadata_values import PARQUET
from headwater.pipeline.metadata_reads import read_topics
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings import readings
from tests.support.pipeline.readings.columns import assert_same
from tests.support.pipeline.readings.mixed import COLUMNS
from tests.support.pipeline.readings.mixed_topic import BINARY, PARTITIONS, MixedTopic
from tests.system.spark.conftest import SharedSpark


async def by_kafka(topic: MixedTopic, partition: int) -> Any:
    bootstrap = topic.cluster.bootstrap
    if partition == BINARY:
        return await readings.by_the_protocol(bootstrap, topic.name, partition)
    return readings.by_librdkafka(bootstrap, topic.name, partition)


async def check_every_reading(topic: MixedTopic, spark: SharedSpark, file_bytes: int) -> int:
    """Compact a topic, and compare all readings before and after; returns its records."""
    cluster, total = topic.cluster, 0
    before, stored = {}, {}
    for partition in range(PARTITIONS):
        expected = pa.concat_tables(topic.expected(partition))
        before[partition] = await by_kafka(topic, partition)
        assert_same(f"Kafka before, {partition}", before[partition], expected)
        stored[partition] = readings.by_spark(spark.session, cluster, topic.name, partition)
        spark_rows = stored[partition].select(COLUMNS)
        assert_same(f"Spark before, {partition}", spark_rows, expected)
        total += expected.num_rows
    summary = await cluster.compact(topic.name, runner=spark, file_bytes=file_bytes)
    assert not summary.failures
    assert {entry.kind for entry in await cluster.entries(topic.name)} == {PARQUET}
    table = await iceberg_table(cluster, topic.name)
    for partition in range(PARTITIONS):
        after = await by_kafka(topic, partition)
        assert_same(f"Kafka after, {partition}", after, before.pop(partition))
        expected = stored.pop(partition)
        for name, reading in (
            ("Spark SQL", readings.by_spark(spark.session, cluster, topic.name, partition)),
            ("pyiceberg", readings.by_pyiceberg(table, partition)),
            ("DuckDB", readings.by_duckdb(table, partition)),
        ):
            assert_same(f"{name}, {partition}", reading, expected)
    return total


async def iceberg_table(cluster: PipelineCluster, topic: str) -> Any:
    async with cluster.open() as place:
        (found,) = await read_topics(place.meta, [topic])
        table = place.tables.table(found)
        return table.catalog.load_table(table.name)
