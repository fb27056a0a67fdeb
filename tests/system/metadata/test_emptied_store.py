"""A metadata server that comes back without its data, under a broker that runs on."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from peers.etcd import Etcd, start_etcd
from tests.system.cluster.clients import produce, read
from tests.system.cluster.running import RunningCluster, refusal

STOPS = "Error: the metadata store was emptied"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    server = start_etcd(tmp_path / "etcd")
    yield server
    server.stop()


def empty(server: Etcd, data: Path) -> None:
    """Killed, and started again without the data that it had."""
    server.kill()
    shutil.rmtree(data)
    server.start()


async def snapshot_taken(objects: Path) -> None:
    """Wait for a snapshot that was begun after this call: the second from now."""
    before = snapshots(objects)
    async with asyncio.timeout(20):
        while len(snapshots(objects) - before) < 2:
            await asyncio.sleep(0.05)


def snapshots(objects: Path) -> set[Path]:
    return set(objects.rglob("*.hwms"))


@pytest.mark.parametrize("busy", [True, False])
async def test_a_broker_ends_with_one_line_and_acknowledges_nothing_anew(
    etcd: Etcd, tmp_path: Path, busy: bool
) -> None:
    """Also one that has nothing to commit: what it would serve is no longer there.

    What it wrote to the empty store before it noticed is in no restore's way.
    """
    cluster = RunningCluster(
        directory=tmp_path,
        metadata=etcd.url("emptied"),
        objects=f"file://{tmp_path}/objects",
        settings={"log": {"inline_bytes": 0, "snapshot_interval_ms": 400}},
    )
    broker = cluster.add(1)
    try:
        await broker.start()
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"one", b"two"])
        await snapshot_taken(tmp_path / "objects")
        await asyncio.to_thread(empty, etcd, tmp_path / "etcd")
        acknowledged: list[int | None] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                acknowledged.append(message.offset())

        producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000})
        if busy:
            producer.produce("t", b"three", partition=0, on_delivery=delivered)
        ended = asyncio.create_task(broker.ended())
        while not ended.done():
            producer.poll(0)
            await asyncio.sleep(0.1)
        assert await ended == 1
        producer.purge()
        producer.flush(5)
        assert acknowledged == []
        assert STOPS in broker.log.read_text().splitlines()[-1]
        assert "run headwater restore" in await refusal(broker)
        await asyncio.to_thread(cluster.run, "restore", "--no-wait")
        await broker.start()
        found = await asyncio.to_thread(read, cluster.bootstrap, "t", 1, 2)
        assert found == [(0, 0, b"one"), (0, 1, b"two")]
    finally:
        await cluster.kill_all()
