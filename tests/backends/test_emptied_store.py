"""A metadata server that comes back without its data, under a broker that runs on."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer

from peers.etcd import Etcd, start_etcd
from tests.cluster.clients import produce
from tests.cluster.running import Place

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


@pytest.mark.parametrize("busy", [True, False])
async def test_a_broker_ends_with_one_line_and_acknowledges_nothing_anew(
    etcd: Etcd, tmp_path: Path, busy: bool
) -> None:
    """Also one that has nothing to commit: what it would serve is no longer there."""
    url = etcd.url("emptied")
    cluster = Place(directory=tmp_path, metadata=url, objects=f"file://{tmp_path}/objects")
    broker = cluster.add(1)
    try:
        await broker.start()
        await asyncio.to_thread(produce, cluster.bootstrap, "t", 1, [b"one", b"two"])
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
        again = cluster.add(2)
        with pytest.raises(AssertionError, match="run headwater restore"):
            await again.start()
    finally:
        await cluster.kill_all()
