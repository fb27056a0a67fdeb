"""A cluster on each backend is snapshotted, and comes back in another store of that kind."""

import asyncio
from collections.abc import Iterator

import pytest

from headwater.broker.cluster.finalize import Finalized, finalize
from headwater.clock import SystemClock
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.restore import restore
from headwater.log.restore.snapshots import Snapshotter, horizon
from headwater.log.settings import LogSettings
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, read_all, running_engine
from tests.support.simulation.world import at_once
from tests.system.metadata.conftest import BACKENDS, BackendServers

PARTITIONS = 150


@pytest.mark.parametrize("name", sorted(BACKENDS))
async def test_a_cluster_comes_back_in_another_store(
    servers: dict[str, BackendServers], names: Iterator[int], name: str
) -> None:
    clock = SystemClock()
    objects = MemoryObjects(clock=clock)
    settings = LogSettings(inline_bytes=0)
    lost = await servers[name].backend(f"lost-{next(names)}").open()
    async with running_engine(lost, objects, settings=settings, housekeeping=False) as engine:
        topic = await engine.topics.create("t", PARTITIONS, {})

        async def append_everywhere(value: bytes) -> None:
            batch = [make_batch(value)]
            await asyncio.gather(*(engine.append(topic, p, batch) for p in range(PARTITIONS)))

        await append_everywhere(b"before")
        snapshotter = Snapshotter(
            lost,
            objects,
            Reclaimer(objects),
            clock,
            incarnation=lambda: "x",
            kept=1,
            offload=at_once,
        )
        taken = await snapshotter.take()
        assert taken is not None
        assert await horizon(lost) == taken.revision
        await append_everywhere(b"after")
        assert await finalize(lost) == Finalized(2, 2)
    await lost.close()
    found = await servers[name].backend(f"found-{next(names)}").open()
    done = await restore(found, objects, clock)
    assert (done.streams, done.found.records) == (PARTITIONS, PARTITIONS)
    async with running_engine(found, objects, settings=settings, housekeeping=False) as engine:
        for partition in (0, 1, 70, PARTITIONS - 1):
            read = await read_all(engine, "t", partition)
            assert read == [(0, b"before"), (1, b"after")]
        assert await append(engine, "t", [make_batch(b"new")]) == 2
    await found.close()
