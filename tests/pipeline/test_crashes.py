"""A driver is killed at every step of the saga, and another process takes its jobs up."""

import asyncio
import signal
import sys
from functools import partial

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


async def test_a_driver_killed_at_any_step_is_followed_by_another(cluster: Cluster) -> None:
    topics = {step: cluster.create_topic(partitions=2) for step in ("writing", *STEPS)}
    for topic in topics.values():
        cluster.produce(topic, 400, partitions=2)
    before = {topic: cluster.consume(topic) for topic in topics.values()}
    some_at_once = asyncio.Semaphore(2)

    async def kill_at(step: str, topic: str) -> None:
        async with some_at_once:
            assert await drive(cluster, step, topic) == -signal.SIGKILL

    await asyncio.gather(*(kill_at(step, topic) for step, topic in topics.items()))
    for topic, expected in before.items():
        assert cluster.consume(topic) == expected
        cluster.produce(topic, 50, partitions=2, seed=1)
    summary = await cluster.compact(*topics.values())
    assert not summary.failures
    for topic, expected in before.items():
        after = cluster.consume(topic)
        assert [row for row in after if row in expected] == expected
        assert len(after) == len(expected) + 50
        assert await cluster.table(topic) == after
        assert {entry.kind for entry in await cluster.entries(topic)} == {PARQUET}
    for topic in topics.values():
        await eventually(partial(nothing_is_left, cluster, topic))


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
    await eventually(partial(nothing_is_left, cluster, topic))


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
    await eventually(partial(nothing_is_left, cluster, topic))
