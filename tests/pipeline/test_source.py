"""The batch data source, over what real clients produced through a real broker."""

import json
from typing import Any

import pytest

from headwater.log.formats import INLINE, PARQUET, WAL
from headwater.meta import keys
from headwater.meta.store import prefix_end
from headwater.pipeline.source import HeadwaterDataSource
from tests.pipeline.cluster import Cluster, Row
from tests.pipeline.conftest import SharedSpark


def reader(spark: SharedSpark, cluster: Cluster, **options: str) -> Any:
    spark.session.dataSource.register(HeadwaterDataSource)
    spark.session.conf.set("spark.sql.session.timeZone", "UTC")
    spark.session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    given = {
        "metadata": cluster.address.metadata_url,
        "objects": cluster.address.objects_url,
        **options,
    }
    return spark.session.read.format("headwater").options(**given)


def rows(frame: Any) -> list[Row]:
    found = frame.toArrow().to_pylist()
    return sorted(
        Row(
            each["partition"],
            each["offset"],
            round(each["timestamp"].timestamp() * 1000),
            each["key"],
            each["value"],
            tuple((header["key"], header["value"]) for header in each["headers"]),
        )
        for each in found
    )


def by_place(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: row[:2])


async def pins(cluster: Cluster) -> list[str]:
    async with cluster.open() as place:
        scanned = await place.meta.scan(keys.pins(0), prefix_end(keys.pins(0)))
        return [each.key for each in scanned.entries if "spark-" in each.key]


async def test_a_query_reads_inline_wal_and_parquet_entries_as_they_were_produced(
    cluster: Cluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 1000, partitions=2, seed=1)
    await cluster.compact(topic)
    cluster.produce(topic, 800, partitions=2, seed=2)
    cluster.produce(topic, 10, partitions=2, seed=3)
    kinds = {entry.kind for entry in await cluster.entries(topic)}
    assert PARQUET in kinds
    assert kinds & {INLINE, WAL}
    frame = reader(spark, cluster, topic=topic).load()
    assert rows(frame) == cluster.consume(topic)
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {topic}
    assert await pins(cluster) == []
