"""librdkafka's own idempotent producers through brokers that are killed and stopped."""

import asyncio
import itertools
import threading
from pathlib import Path
from random import Random

import pytest

from tests.system.invariants.cluster import running_cluster
from tests.system.invariants.history import History
from tests.system.invariants.nemesis import BrokerHarm, BrokerNemesis
from tests.system.invariants.producers.clients import BrokerConnection, now
from tests.system.invariants.producers.librdkafka import produce
from tests.system.invariants.schedule import PARTITIONS, SECONDS, assert_kept, read_finals, seeded

pytestmark = pytest.mark.timeout(SECONDS + 90)


async def test_idempotent_producers_of_librdkafka_write_once_and_in_order(tmp_path: Path) -> None:
    with seeded() as rng:
        async with running_cluster(tmp_path, 3) as cluster:
            async with await BrokerConnection.open(cluster.brokers[1]) as connection:
                await connection.create_topic(PARTITIONS)
            history = History()
            stop, stopping = asyncio.Event(), threading.Event()
            nemesis = BrokerNemesis(cluster, history, Random(rng.random()))
            harms = [BrokerHarm.KILL, BrokerHarm.PAUSE, BrokerHarm.LONG_PAUSE]
            harm = asyncio.create_task(nemesis.run(harms, stop))
            work = [
                asyncio.create_task(
                    asyncio.to_thread(produce, cluster.bootstrap, name, PARTITIONS, stopping)
                )
                for name in ("one", "two")
            ]
            started = now()
            try:
                await asyncio.wait([harm, *work], timeout=SECONDS, return_when="FIRST_COMPLETED")
            finally:
                stop.set()
                stopping.set()
                await asyncio.wait([harm])
                finished = await asyncio.gather(*work)
            harm.result()
            assert now() - started >= SECONDS
            history.produced += itertools.chain.from_iterable(finished)
            await read_finals(cluster, history, PARTITIONS)
            await assert_kept(cluster, history)
