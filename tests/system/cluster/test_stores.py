"""Clusters and their objects: two in one bucket, one that comes back, one that is upgraded."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.clock import SystemClock
from headwater.cluster_record import ClusterRecord
from headwater.log.formats.metadata_values import Incarnation
from headwater.meta import keys
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Values, Writes, prefix_end
from headwater.meta.values import decode, encode
from peers.s3_server import S3Server
from tests.system.cluster.clients import produce, read
from tests.system.cluster.conftest import BUCKET
from tests.system.cluster.running import RunningCluster, StoreUrls, place, refusal

pytestmark = pytest.mark.timeout(120)

SOON = {
    "gc_interval_ms": 200,
    "gc_grace_ms": 0,
    "orphan_grace_ms": 200,
    "snapshot_interval_ms": 500,
    "snapshots_kept": 2,
    "inline_bytes": 0,
}


async def snapshot_taken(cluster: RunningCluster) -> None:
    """Wait for a snapshot that was begun after this call."""
    called_ms = SystemClock().now_ms()
    async with asyncio.timeout(30):
        while True:
            told = (await cluster.command("cluster", "status"))["snapshot"]
            if told is not None and begun_ms(told["key"]) > called_ms:
                return
            await asyncio.sleep(0.2)


def begun_ms(key: str) -> int:
    """From a name that ends with ``/<milliseconds>-<who took it>``."""
    return int(key.rpartition("/")[2].partition("-")[0])


async def test_two_clusters_share_a_bucket_by_prefix(tmp_path: Path, s3: S3Server) -> None:
    access = s3.client_environment()

    def in_bucket(prefix: str) -> StoreUrls:
        return StoreUrls(objects=s3.url(BUCKET, prefix), environment=access)

    values = [f"{number}".encode() for number in range(50)]
    async with (
        place(tmp_path / "one", stores=in_bucket("one"), log=SOON) as one,
        place(tmp_path / "two", stores=in_bucket("two"), log=SOON) as two,
    ):
        for cluster in (one, two):
            await cluster.create_topic("t", 1)
            await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, values)
        await snapshot_taken(one)
        await snapshot_taken(two)
        for cluster in (one, two):
            found = await asyncio.to_thread(read, cluster.bootstrap, "t", 1, 50)
            assert [value for _, _, value in found] == values
        intruder = RunningCluster(
            directory=tmp_path,
            metadata=f"sqlite:///{tmp_path}/intruder.db",
            objects=one.objects,
            environment=access,
        )
        broker = intruder.add(1)
        assert "the metadata store is empty" in await refusal(broker)


async def test_a_cluster_comes_back_after_its_metadata_store_is_lost(tmp_path: Path) -> None:
    values = [f"{number}".encode() for number in range(100)]
    async with place(tmp_path, log=SOON) as cluster:
        await cluster.create_topic("t", 1)
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, values[:60])
        await snapshot_taken(cluster)
        # It is the last one: the first epoch ends at 60, where the snapshot does.
        await cluster.stop(1)
        cluster.settings["log"] = {**SOON, "snapshot_interval_ms": 0}
        await cluster.add(1).start()
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, values[60:])
        seen: list[bytes] = []
        while len(seen) < len(values):
            message = await asyncio.to_thread(consumer.poll, 1.0)
            if message is not None:
                assert message.error() is None
                value = message.value()
                assert isinstance(value, bytes)
                seen.append(value)
        assert seen == values
        await cluster.brokers[1].kill()
        await asyncio.to_thread(shutil.rmtree, tmp_path / "metadata")
        await asyncio.to_thread((tmp_path / "metadata").mkdir)
        refused = cluster.add(2)
        assert "or run headwater restore where the metadata was lost" in await refusal(refused)
        del cluster.brokers[2]
        told = await cluster.command("restore", "--dry-run")
        done = await cluster.command("restore", "--no-wait")
        assert told["tables"] is None  # a dry run opens no catalog
        assert done["tables"] == {"tables": [], "added": [], "removed": [], "failures": []}
        assert {**told, "dry_run": False, "tables": done["tables"]} == done
        assert (done["epoch"], done["found"]["records"]) == (1, 40)
        await cluster.brokers[1].start()
        assert (await cluster.command("cluster", "status"))["epoch"] == 1
        found = await asyncio.to_thread(read, cluster.bootstrap, "t", 1, 100)
        assert [(offset, value) for _, offset, value in found] == list(enumerate(values))
        # The consumer that lived through it was at 100, beyond the end of the epoch in which it
        # had read: it finds that out by itself, and goes back to that end.
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"after"])
        again: list[bytes] = []
        async with asyncio.timeout(40):
            while not again or again[-1] != b"after":
                message = await asyncio.to_thread(consumer.poll, 1.0)
                if message is not None and message.error() is None:
                    value = message.value()
                    assert isinstance(value, bytes)
                    again.append(value)
        await asyncio.to_thread(consumer.close)
        assert again == [*values[60:], b"after"]


async def test_an_old_cluster_is_upgraded_and_writes_the_new_format_once_it_is_finalized(
    tmp_path: Path,
) -> None:
    database = tmp_path / "metadata" / "metadata.db"
    async with place(tmp_path, brokers=[{}, {}], log=SOON) as cluster:
        await cluster.create_topic("t", 1)
        await cluster.stop(1)
        await cluster.stop(2)
        await make_level(database, 1)
        await cluster.brokers[1].start()
        await cluster.brokers[2].start()
        status = await cluster.command("cluster", "status")
        assert (status["level"], status["can_finalize"]) == (1, 2)
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"old"])
        assert await noted_sections(database) == ["", ""]
        assert await cluster.command("cluster", "finalize", "--yes") == {
            "before": 1, "after": 2, "dry_run": False,
        }  # fmt: skip
        await both_said(cluster, '"feature_level": 2')
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"new"])
        assert [each.partition("/")[0] for each in await noted_sections(database)] == ["", "wal"]
        found = await asyncio.to_thread(read, cluster.bootstrap, "t", 1, 2)
        assert [value for _, _, value in found] == [b"old", b"new"]
        await cluster.stop(2)
        await make_level(database, 3)
        said = await refusal(cluster.brokers[2])
        assert "has feature level 3, and this release supports 1 to 2: run a newer release" in said


async def both_said(cluster: RunningCluster, text: str) -> None:
    """Wait for a line in the log of every broker: a level may be known late, never early."""
    async with asyncio.timeout(30):
        while any(text not in broker.log.read_text() for broker in cluster.brokers.values()):
            await asyncio.sleep(0.1)


async def noted_sections(file: Path) -> list[str]:
    """The object of the last section that each living broker noted, which level 2 brought."""
    store = await SqliteStore.open(file, SystemClock())
    prefix = keys.incarnations(0)
    found = (await store.scan(prefix, prefix_end(prefix))).entries
    await store.close()
    return sorted(decode(Incarnation, entry.value).section[0] for entry in found)


async def make_level(file: Path, level: int) -> None:
    """What another release would have written."""
    store = await SqliteStore.open(file, SystemClock())

    def decide(values: Values) -> tuple[Writes, None]:
        writes, there = Writes(), values[keys.CLUSTER]
        assert there is not None
        record = decode(ClusterRecord, there.value)
        record.level = level
        writes.put(keys.CLUSTER, encode(record))
        return writes, None

    await store.transact(0, [keys.CLUSTER], decide)
    await store.close()


def test_help_of_restore_shows_an_example(tmp_path: Path) -> None:
    cluster = RunningCluster(
        directory=tmp_path, metadata="memory://", objects=f"file://{tmp_path}/o"
    )
    said = cluster.run("restore", "--help").stdout
    assert "headwater restore --metadata etcd://" in said
    for said in ("there is no object store at", "there is no snapshot of the metadata among these"):
        nothing = cluster.run("restore", check=False)
        assert nothing.returncode == 1
        assert said in nothing.stderr
        (tmp_path / "o").mkdir(exist_ok=True)
    assert json.loads(cluster.run("restore", "--list", "--json").stdout) == []
