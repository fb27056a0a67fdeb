"""A flush that etcd cannot take at once: many idempotent producers on many partitions."""

import asyncio
from collections.abc import Iterator

import pytest

from headwater.clock import SystemClock
from headwater.meta import keys
from headwater.meta.store import prefix_end
from headwater.objects.memory import MemoryObjects
from peers.etcd import Etcd, start_etcd
from tests.support.log.harness import append, make_batch, running_engine
from tests.support.metadata_servers.etcd import opened

PARTITIONS, PRODUCERS, AT_ONCE = 61, 1_200, 200


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = start_etcd(tmp_path_factory.mktemp("etcd") / "data")
    yield server
    server.stop()


async def test_a_flush_is_cut_until_etcd_takes_it(
    server: Etcd, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        opened(server.url()) as store,
        running_engine(store, MemoryObjects(clock=SystemClock()), housekeeping=False) as engine,
    ):
        await engine.topics.create("t", PARTITIONS, {})
        for first in range(0, PRODUCERS, AT_ONCE):
            batches = [
                make_batch(producer_id=producer, epoch=0, sequence=0)
                for producer in range(first, first + AT_ONCE)
            ]
            offsets = await asyncio.gather(
                *(append(engine, "t", batches, partition) for partition in range(PARTITIONS))
            )
            assert offsets == [first] * PARTITIONS
        tails = await store.scan(keys.tails(0), prefix_end(keys.tails(0)))
        assert sum(len(entry.value) for entry in tails.entries) > 3 << 19, "etcd's 1.5 MiB"
    assert "flush" not in caplog.text
