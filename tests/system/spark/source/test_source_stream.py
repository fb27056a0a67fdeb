"""The streaming data source, restarted from its checkpoint."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from headwater.pipeline.source.data_source import HeadwaterDataSource
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.readings.spark_source import pins, place_options, rows
from tests.system.spark.conftest import SharedSpark

SECONDS = 100
COMMAND = str(Path(sys.executable).with_name("headwater"))


class Query:
    """A stream of a topic into Parquet files, with its checkpoint."""

    def __init__(
        self, spark: SharedSpark, cluster: PipelineCluster, topic: str, folder: Path, **options: str
    ) -> None:
        spark.session.dataSource.register(HeadwaterDataSource)
        self._session = spark.session
        start = {"topic": topic, "startingOffsets": "earliest"}
        self._options = {**place_options(cluster), **start, **options}
        self._folder = folder

    def start(self, **trigger: Any) -> Any:
        stream = self._session.readStream.format("headwater").options(**self._options).load()
        return (
            stream.writeStream.format("parquet")
            .option("path", str(self._folder / "out"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def run(self) -> None:
        assert self.start(availableNow=True).awaitTermination(SECONDS)

    def rows(self) -> Any:
        return rows(self._session.read.parquet(str(self._folder / "out")))


async def test_each_record_is_read_once_over_restarts_and_compactions(
    cluster: PipelineCluster, spark: SharedSpark, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=2)
    query = Query(spark, cluster, topic, tmp_path)
    cluster.produce(topic, 300, partitions=2, seed=1)
    query.run()
    assert query.rows() == cluster.consume(topic)
    cluster.produce(topic, 200, partitions=2, seed=2)
    await cluster.compact(topic)
    cluster.produce(topic, 100, partitions=2, seed=3)
    running = query.start(processingTime="200 milliseconds")
    running.processAllAvailable()
    assert query.rows() == cluster.consume(topic)
    cluster.produce(topic, 50, partitions=2, seed=4)
    running.processAllAvailable()
    assert len(await pins(cluster, topic)) >= 2
    running.stop()
    assert query.rows() == cluster.consume(topic)


def test_a_topic_created_again_is_not_taken_for_the_one_that_was_read(
    cluster: PipelineCluster, spark: SharedSpark, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    topic = cluster.create_topic("reborn")
    query = Query(spark, cluster, topic, tmp_path)
    cluster.produce(topic, 100, seed=1)
    query.run()
    cluster.delete_topic(topic)
    cluster.create_topic(topic)
    cluster.produce(topic, 150, seed=2)
    with pytest.raises(StreamingQueryException, match="deleted and created again"):
        query.run()
    lenient = Query(spark, cluster, topic, tmp_path, failOnDataLoss="false")
    lenient.run()
    assert len(lenient.rows()) == 250


def test_what_was_read_already_may_be_deleted(
    cluster: PipelineCluster, spark: SharedSpark, tmp_path: Path
) -> None:
    topic = cluster.create_topic()
    query = Query(spark, cluster, topic, tmp_path)
    cluster.produce(topic, 100, seed=1)
    query.run()
    cluster.delete_records(topic, 0, 100)
    cluster.produce(topic, 50, seed=2)
    query.run()
    assert len(query.rows()) == 150


def test_a_consumer_group_shows_how_far_a_query_is(
    cluster: PipelineCluster, spark: SharedSpark, tmp_path: Path
) -> None:
    topic = cluster.create_topic(partitions=2)
    group = {"group": "spark-query", "bootstrap": cluster.bootstrap}
    query = Query(spark, cluster, topic, tmp_path, **group)
    cluster.produce(topic, 100, partitions=2, seed=1)
    running = query.start(processingTime="200 milliseconds")
    running.processAllAvailable()
    ends = {row.partition: row.offset + 1 for row in cluster.consume(topic)}
    deadline = time.monotonic() + SECONDS
    while committed(cluster, "spark-query", topic) != ends:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    running.stop()
    cluster.produce(topic, 30, partitions=2, seed=2)
    shown = subprocess.run(
        [*(COMMAND, "group", "describe", "spark-query"), *("-b", cluster.bootstrap, "--json")],
        capture_output=True,
        check=True,
    )
    (described,) = json.loads(shown.stdout)
    assert sum(each["lag"] for each in described["partitions"]) == 30


def committed(cluster: PipelineCluster, group: str, topic: str) -> dict[int, int]:
    admin, wanted = cluster.admin(), ConsumerGroupTopicPartitions(group)
    (answer,) = admin.list_consumer_group_offsets([wanted]).values()
    found = answer.result(30).topic_partitions
    return {each.partition: each.offset for each in found if each.topic == topic}
