"""Compaction on Spark, of what real clients produced through a real broker."""

import asyncio
import contextlib

from headwater.log.formats.metadata_values import PARQUET
from tests.support.pipeline.cluster import CODECS, PipelineCluster, make_compactor
from tests.support.waiting import eventually
from tests.system.spark.conftest import SharedSpark


async def test_log_and_table_are_equal_before_and_after(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(partitions=3)
    cluster.produce(topic, 4000, partitions=3, codecs=CODECS)
    before = cluster.consume(topic)
    assert len(before) == 4000
    summary = await cluster.compact(topic, runner=spark)
    assert summary.records == 4000
    assert len(summary.streams) == 3
    assert summary.files > 3
    assert not summary.failures
    assert {entry.kind for entry in await cluster.entries(topic)} == {PARQUET}
    assert cluster.consume(topic) == before
    assert await cluster.table(topic) == before


async def test_the_tail_behind_a_compacted_range_is_served_and_compacted_next(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 300, seed=1)
    await cluster.compact(topic, runner=spark)
    cluster.produce(topic, 200, seed=2)
    mixed = cluster.consume(topic)
    assert [row.offset for row in mixed] == list(range(500))
    again = await cluster.compact(topic, runner=spark)
    assert again.records == 200
    assert (await cluster.compact(topic, runner=spark)).jobs == 0
    assert cluster.consume(topic) == mixed
    assert await cluster.table(topic) == mixed


async def test_many_topics_go_into_one_run(cluster: PipelineCluster, spark: SharedSpark) -> None:
    topics = [cluster.create_topic(partitions=2) for _ in range(3)]
    for number, topic in enumerate(topics):
        cluster.produce(topic, 100, partitions=2, seed=number)
    summary = await cluster.compact(*topics, runner=spark)
    assert summary.records == 300
    for topic in topics:
        assert await cluster.table(topic) == cluster.consume(topic)


async def test_a_topic_that_asks_for_no_table_stays_as_it_is(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs={"headwater.compact-to": "none"})
    cluster.produce(topic, 50)
    assert (await cluster.compact(topic)).jobs == 0


async def test_following_compacts_what_has_waited_and_leaves_what_has_not(
    cluster: PipelineCluster,
) -> None:
    topic, other = cluster.create_topic(), cluster.create_topic()
    cluster.produce(topic, 100)

    async def compacted(count: int) -> bool:
        return (
            sum(
                entry.end - entry.start
                for entry in await cluster.entries(topic)
                if entry.kind == PARQUET
            )
            == count
        )

    async with cluster.open() as place:
        compactor = make_compactor(place, max_age_ms=2000, interval_ms=100)
        following = asyncio.create_task(compactor.follow([topic, other]))
        await eventually(lambda: compacted(100))
        cluster.delete_topic(other)
        cluster.produce(topic, 50, seed=1)
        assert await compacted(100)
        await eventually(lambda: compacted(150))
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        compactor.close()
    assert await cluster.table(topic) == cluster.consume(topic)
