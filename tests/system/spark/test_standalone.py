"""A standalone Spark cluster of two workers over a bucket; one worker dies at work."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headwater.log.formats.metadata_values import PARQUET
from headwater.wire.batches.codecs import Codec
from peers.s3_server import SECRET_KEY
from peers.spark import Standalone, descendants, start_standalone
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.commands import run_command, start_command
from tests.support.pipeline.readings import readings
from tests.support.pipeline.readings.columns import assert_same, in_order
from tests.support.pipeline.readings.every_reading import iceberg_table
from tests.support.pipeline.readings.mixed import COLUMNS, RecordBlock
from tests.support.pipeline.readings.mixed_produce import wire_producer
from tests.support.waiting import eventually

PARTITIONS = 16
ROWS = 20_000
"""In each partition: each is a task that takes a moment."""
LIMIT_SECONDS = 300

pytestmark = pytest.mark.timeout(LIMIT_SECONDS)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    # Workers know no key of the bucket: the driver must bring it.
    nothing = dict.fromkeys((name for name in os.environ if name.startswith("AWS_")), "")
    running = start_standalone(tmp_path_factory.mktemp("standalone"), environment=nothing)
    yield running
    running.stop()


async def test_a_killed_worker_loses_no_record_and_no_secret_is_shown(
    s3_cluster: PipelineCluster, standalone: Standalone
) -> None:
    topic = s3_cluster.create_topic(partitions=PARTITIONS)
    async with wire_producer(s3_cluster.bootstrap, topic) as producer:
        written = [
            await producer.send(
                partition, RecordBlock(ROWS, partition), codec=Codec.NONE, size=500_000
            )
            for partition in range(PARTITIONS)
        ]
    before = s3_cluster.data_files()
    arguments = ("table", "compact", topic, "--master", standalone.url, "--json")
    driver = start_command(s3_cluster, *arguments)
    try:
        await wait_for_files(s3_cluster, before, 3, driver)
        assert_no_secret_in_commands(standalone, driver.pid)
        assert standalone.kill_worker(0) >= 3, "it had no executor with a Python process"
        out, err = await asyncio.to_thread(driver.communicate, timeout=LIMIT_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 0, err
    assert json.loads(out)["records"] == ROWS * PARTITIONS
    assert {entry.kind for entry in await s3_cluster.entries(topic)} == {PARQUET}
    table = await iceberg_table(s3_cluster, topic)
    for partition in range(PARTITIONS):
        expected = in_order(written[partition].table(), COLUMNS)
        consumed = readings.by_librdkafka(s3_cluster.bootstrap, topic, partition)
        assert_same(f"Kafka, {partition}", consumed, expected)
        scanned = readings.by_pyiceberg(table, partition).select(COLUMNS)
        assert_same(f"pyiceberg, {partition}", scanned, expected)
    await eventually(partial(all_files_are_named, s3_cluster, topic), seconds=60)
    for file in standalone.folder.rglob("*"):
        if file.is_file():
            assert SECRET_KEY.encode() not in file.read_bytes(), file
    query = f"SELECT count(*) AS n, count(DISTINCT partition, offset) AS m FROM `{topic}`"
    words = ("sql", query, "--master", standalone.url, "--format", "json")
    done = run_command(s3_cluster, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == dict.fromkeys("nm", ROWS * PARTITIONS)


async def all_files_are_named(cluster: PipelineCluster, topic: str) -> bool:
    """What the killed tasks had written is gone."""
    named = {entry.key for entry in await cluster.entries(topic)}
    folder = next(iter(named)).partition("/data/")[0]
    return named == {file for file in cluster.data_files() if file.startswith(folder)}


async def wait_for_files(
    cluster: PipelineCluster, before: set[str], count: int, driver: "subprocess.Popen[str]"
) -> None:
    """Until a job has written some of its files, and goes on."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(cluster.data_files() - before) < count:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline, "no file is written"
        await asyncio.sleep(0.02)


def assert_no_secret_in_commands(standalone: Standalone, driver: int) -> None:
    """Nobody on the machine can read the bucket's key in the list of processes."""
    servers = [standalone.master, *standalone.workers]
    pids = [driver, *descendants(driver)]
    pids += [pid for server in servers for pid in (server.pid, *descendants(server.pid))]
    for pid in pids:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        assert SECRET_KEY.encode() not in command, command
