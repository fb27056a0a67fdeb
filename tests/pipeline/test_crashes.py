"""A driver is killed at every step of the saga, and another process takes its jobs up."""

import asyncio
import signal
import sys

import pytest

from headwater.log.formats import PARQUET
from headwater.log.job_steps import JobSteps
from headwater.pipeline.summary import STEPS
from tests.pipeline.cluster import Cluster, eventually
from tests.pipeline.conftest import SharedSpark


async def drive(cluster: Cluster, step: str, *topics: str, runner: str = "here") -> int:
    """Run a driver in another process; returns how it ended."""
    arguments = [str(cluster.data), step, runner, *topics]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.pipeline.driver", *arguments
    )
    return await process.wait()


async def nothing_is_left(cluster: Cluster, topic: str) -> bool:
    """No open job, and no data file of the topic that the index does not name."""
    async with cluster.open() as place:
        if any(job.topic == topic for job in await JobSteps(place.meta, place.clock).open_jobs()):
            return False
    entries = await cluster.entries(topic)
    named = {entry.key for entry in entries}
    folder = next(iter(named)).split("/data/")[0]
    return named == {file for file in cluster.data_files() if file.startswith(folder)}


@pytest.mark.parametrize("step", ["writing", *STEPS])
async def test_a_killed_driver_is_followed_by_another(cluster: Cluster, step: str) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 400, partitions=2)
    expected = cluster.consume(topic)
    assert await drive(cluster, step, topic) == -signal.SIGKILL
    assert cluster.consume(topic) == expected
    cluster.produce(topic, 100, partitions=2, seed=1)
    expected = cluster.consume(topic)
    summary = await cluster.compact(topic)
    assert not summary.failures
    assert {entry.kind for entry in await cluster.entries(topic)} == {PARQUET}
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected
    await eventually(lambda: nothing_is_left(cluster, topic))


async def test_a_job_that_spark_wrote_is_taken_up_after_its_driver_was_killed(
    cluster: Cluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 300)
    expected = cluster.consume(topic)
    assert await drive(cluster, "written", topic, runner="spark") == -signal.SIGKILL
    summary = await cluster.compact(topic, runner=spark)
    assert summary.records == 300
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected
    await eventually(lambda: nothing_is_left(cluster, topic))


async def test_three_rivals_and_a_consumer_see_one_copy(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    for seed in range(3):
        cluster.produce(topic, 300, partitions=2, seed=seed)
    expected = cluster.consume(topic)
    rivals = [asyncio.create_task(drive(cluster, "never", topic)) for _ in range(3)]
    while not all(rival.done() for rival in rivals):
        assert await asyncio.to_thread(cluster.consume, topic) == expected
    assert [rival.result() for rival in rivals] == [0, 0, 0]
    assert {entry.kind for entry in await cluster.entries(topic)} == {PARQUET}
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected
    await eventually(lambda: nothing_is_left(cluster, topic))
