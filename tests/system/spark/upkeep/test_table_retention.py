"""Records that left the log leave its table, and their files are deleted in the end."""

import json
import subprocess
import sys
from pathlib import Path

from headwater.pipeline.fsck.report import NoCheckWatcher
from headwater.pipeline.upkeep.maintain import UpkeepSummary, keep_tables
from headwater.tables.settings import TableSettings
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.waiting import eventually

COMMAND = Path(sys.executable).with_name("headwater")
SHORT = TableSettings(snapshot_age_ms=0)


async def maintain(cluster: PipelineCluster, *topics: str) -> UpkeepSummary:
    async with cluster.open(SHORT) as place:
        return await keep_tables(place, topics, NoCheckWatcher())


async def test_deleted_records_leave_the_table_and_their_files_are_deleted(
    cluster: PipelineCluster,
) -> None:
    topic = cluster.create_topic(partitions=2)
    for seed in range(3):
        cluster.produce(topic, 200, partitions=2, seed=seed)
        await cluster.compact(topic)
    entries = await cluster.entries(topic)
    first = entries[0]
    cluster.delete_records(topic, 0, first.end)
    expected = cluster.consume(topic)

    async def gone() -> bool:
        summary = await maintain(cluster, topic)
        assert not summary.failures
        # The table was last written to long ago: its newest snapshots do not keep what is deleted.
        return first.key not in cluster.data_files()

    await eventually(gone)
    assert await cluster.table(topic) == expected
    assert cluster.consume(topic) == expected
    left = {entry.key for entry in await cluster.entries(topic)}
    assert left == {entry.key for entry in entries[1:]}
    assert left <= cluster.data_files()


async def test_retention_by_time_empties_log_and_table_alike(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs={"retention.ms": "5000"})
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    files = {entry.key for entry in await cluster.entries(topic)}

    async def gone() -> bool:
        await maintain(cluster, topic)
        return not files & cluster.data_files()

    await eventually(gone)
    assert await cluster.table(topic) == cluster.consume(topic) == []


async def test_a_kept_snapshot_keeps_its_files(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    cluster.produce(topic, 100)
    await cluster.compact(topic)
    (entry,) = await cluster.entries(topic)
    cluster.delete_records(topic, 0, entry.end)

    async def waits() -> bool:
        async with cluster.open() as place:
            return (await keep_tables(place, [topic], NoCheckWatcher())).files_waiting > 0

    await eventually(waits)
    assert await cluster.table(topic) == []
    assert entry.key in cluster.data_files()


def test_the_command_says_what_it_did(cluster: PipelineCluster) -> None:
    done = subprocess.run(
        [COMMAND, "table", "maintain", "--data", cluster.data, "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["failures"] == []
