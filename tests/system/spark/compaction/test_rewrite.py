"""Small files of a table become large ones; log and table stay equal, whatever happens."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.pipeline.compaction.planner import REWRITE, StreamView
from headwater.pipeline.compaction.summary import STEPS, RunSummary, Watcher
from headwater.pipeline.spark.runner import Runner
from headwater.pipeline.upkeep.rewrite_plan import plan_rewrite
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.waiting import eventually
from tests.system.spark.compaction.test_faults import Meanwhile, elsewhere
from tests.system.spark.conftest import SharedSpark

COMMAND = Path(sys.executable).with_name("headwater")
ROUNDS = 3


def view(*files: tuple[int, int, int], log_start: int = 0) -> StreamView:
    """Files given by start, end and bytes."""
    entries = [
        IndexEntry(
            start=start,
            end=end,
            kind=PARQUET,
            length=length,
            size=end,
            max_timestamp=0,
            created_ms=0,
            key=f"f{start}",
        )
        for start, end, length in files
    ]
    return StreamView(log_start, 10**9, entries)


def test_small_neighbours_are_rewritten_together() -> None:
    plan = plan_rewrite(view((0, 10, 90), (10, 20, 10), (20, 30, 20), (30, 40, 90)), 100)
    assert plan is not None
    assert (plan.start, plan.end, plan.kind) == (10, 30, REWRITE)
    assert plan.inputs == ("f10", "f20")


@pytest.mark.parametrize(
    "files",
    [
        [(0, 10, 90), (10, 20, 80)],
        [(0, 10, 10)],
        [(0, 10, 70), (10, 20, 70)],
        [(0, 10, 10), (11, 20, 10)],
        [],
    ],
    ids=["large", "alone", "too much for one", "no neighbours", "none"],
)
def test_what_would_not_make_fewer_files_is_left_alone(
    files: Sequence[tuple[int, int, int]],
) -> None:
    assert plan_rewrite(view(*files), 100) is None


def test_files_below_log_start_are_left_to_retention() -> None:
    plan = plan_rewrite(view((0, 10, 5), (10, 20, 5), (20, 30, 5), log_start=10), 100)
    assert plan is not None
    assert plan.inputs == ("f10", "f20")


def test_many_groups_make_one_job() -> None:
    plan = plan_rewrite(view(*((n, n + 1, 30) for n in range(9))), 100)
    assert plan is not None
    assert (plan.start, plan.end) == (0, 9)


async def rewrite(
    cluster: PipelineCluster,
    *topics: str,
    runner: Runner | None = None,
    watcher: Watcher | None = None,
) -> RunSummary:
    async with cluster.open() as place:
        compactor = make_compactor(place, runner=runner, watcher=watcher)
        try:
            return await compactor.rewrite(topics)
        finally:
            compactor.close()


async def small_files(cluster: PipelineCluster) -> str:
    """A topic whose two partitions are in several files each."""
    topic = cluster.create_topic(partitions=2)
    for seed in range(ROUNDS):
        cluster.produce(topic, 50, partitions=2, seed=seed)
        await cluster.compact(topic)
    assert len(await cluster.entries(topic)) == 2 * ROUNDS
    return topic


async def test_log_and_table_are_equal_before_and_after(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = await small_files(cluster)
    before = cluster.consume(topic)
    summary = await rewrite(cluster, topic, runner=spark)
    assert not summary.failures
    assert (summary.records, summary.files) == (len(before), 2)
    assert len(await cluster.entries(topic)) == 2
    assert cluster.consume(topic) == before
    assert await cluster.table(topic) == before
    assert (await rewrite(cluster, topic)).jobs == 0
    cluster.produce(topic, 50, partitions=2, seed=99)
    await cluster.compact(topic)
    assert await cluster.table(topic) == cluster.consume(topic)


@pytest.mark.parametrize("step", STEPS[:-2])
async def test_records_that_are_deleted_meanwhile_leave_log_and_table(
    cluster: PipelineCluster, step: str
) -> None:
    topic = await small_files(cluster)
    second = (await cluster.entries(topic))[1]

    def delete() -> None:
        cluster.delete_records(topic, 0, second.end)
        elsewhere(lambda: trimmed_and_let_go(cluster, topic, second))

    summary = await rewrite(cluster, topic, watcher=Meanwhile(step, delete))
    assert not summary.failures
    assert not (await rewrite(cluster, topic)).failures
    expected = cluster.consume(topic)
    assert [row for row in await cluster.table(topic) if row in set(expected)] == expected
    below = [row for row in await cluster.table(topic) if row not in set(expected)]
    assert len({row[:2] for row in below}) == len(below)


async def trimmed_and_let_go(cluster: PipelineCluster, topic: str, entry: IndexEntry) -> None:
    """Wait until the broker's sweep took an entry out, then have the table let its file go."""
    from headwater.pipeline.fsck.report import NoCheckWatcher
    from headwater.pipeline.upkeep.maintain import keep_tables

    async def trimmed() -> bool:
        return entry.key not in {each.key for each in await cluster.entries(topic)}

    await eventually(trimmed)
    async with cluster.open() as place:
        assert not (await keep_tables(place, [topic], NoCheckWatcher())).failures


async def test_a_damaged_file_is_reported_and_does_not_stop_other_jobs(
    cluster: PipelineCluster,
) -> None:
    topic = await small_files(cluster)
    first = (await cluster.entries(topic))[0]
    path = cluster.data / "objects" / first.key
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole[:100] + bytes(50) + whole[150:])
    summary = await rewrite(cluster, topic)
    assert len(summary.failures) == 1
    assert summary.files == 1
    path.write_bytes(whole)
    cluster.produce(topic, 50, partitions=2, seed=50)
    assert not (await cluster.compact(topic)).failures
    assert not (await rewrite(cluster, topic)).failures
    assert await cluster.table(topic) == cluster.consume(topic)


async def test_the_command_says_what_it_did(cluster: PipelineCluster) -> None:
    topic = await small_files(cluster)
    words = ["table", "rewrite", topic, "--data", str(cluster.data), "--json"]
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *words,
        stdout=subprocess.PIPE,
        env=os.environ | {"HEADWATER_PIPELINE_MASTER": "local[1]"},
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    assert json.loads(printed)["files"] == 2
