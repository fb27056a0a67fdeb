"""Real brokers on one database and one directory, killed and stopped at any moment.

Two and three brokers take the same partitions at once while clients go from one to another.
``HEADWATER_CHAOS_SECONDS`` makes the schedules longer, ``HEADWATER_CHAOS_SEED`` repeats one. The
clock is real, so that a seed fixes what is tried and not what happens.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from tests.invariants.checker import violations
from tests.invariants.clients import Connection
from tests.invariants.cluster import BrokerProcess, Cluster, running_cluster
from tests.invariants.history import History
from tests.invariants.nemesis import Nemesis
from tests.invariants.workload import Producer, consume, read_final

SECONDS = float(os.environ.get("HEADWATER_CHAOS_SECONDS", "6"))
PARTITIONS = 2
TRIMMED = 0
"""The partition whose log start moves; in the others everything stays readable."""


@contextmanager
def seeded() -> Iterator[Random]:
    given = os.environ.get("HEADWATER_CHAOS_SEED")
    seed = int(given) if given else SystemRandom().randrange(2**32)
    try:
        yield Random(seed)
    except BaseException as error:
        error.add_note(f"HEADWATER_CHAOS_SEED={seed}")
        raise


async def run_schedule(
    cluster: Cluster, rng: Random, *, seconds: float, nemeses: int, trims: int | None = TRIMMED
) -> History:
    """Produce, consume and do harm at once; then read everything through every broker."""
    history = History()
    first = await Connection.open(cluster.brokers[1])
    await first.create_topic(PARTITIONS)

    def choose() -> BrokerProcess:
        up = [broker for broker in cluster.brokers.values() if broker.up]
        return rng.choice(up or list(cluster.brokers.values()))

    producers = [
        Producer(
            f"{'i' if idempotent else 'p'}{number}",
            number % PARTITIONS,
            history,
            choose,
            Random(rng.random()),
            producer_id=await first.producer_id() if idempotent else -1,
        )
        for number, idempotent in enumerate([True] * 4 + [False] * 2)
    ]
    first.close()
    stop = asyncio.Event()
    ended = asyncio.Event()
    nemesis = Nemesis(cluster, history, Random(rng.random()))
    async with asyncio.timeout(seconds + 40), asyncio.TaskGroup() as tasks:
        harm = [
            tasks.create_task(nemesis.run(stop, trims=trims if number == 0 else None))
            for number in range(nemeses)
        ]
        work = [tasks.create_task(producer.run(stop)) for producer in producers]
        for partition in range(PARTITIONS):
            for _ in range(2):
                reader = Random(rng.random())
                tasks.create_task(consume(history, partition, choose, reader, ended))
        await asyncio.sleep(seconds)
        stop.set()
        await asyncio.wait([*harm, *work])
        ended.set()
    for broker in cluster.brokers.values():
        connection = await Connection.open(broker)
        for partition in range(PARTITIONS):
            await read_final(history, connection, partition)
        connection.close()
    return history


def assert_kept(cluster: Cluster, history: History) -> None:
    found = violations(history)
    assert not found, "\n".join(found[:20])
    assert sum(1 for one in history.produced if one.offset is not None) > 50
    assert sum(len(poll.records) for poll in history.polled) > 50
    assert not cluster.crashes(), "\n".join(cluster.crashes())


@pytest.mark.timeout(SECONDS + 90)
@pytest.mark.parametrize(("brokers", "nemeses"), [(2, 1), (3, 2)])
async def test_brokers_killed_and_stopped_at_any_moment_keep_the_invariants(
    tmp_path: Path, brokers: int, nemeses: int
) -> None:
    with seeded() as rng:
        faults = rng.choice(["", "lost-answers=0.05"])
        async with running_cluster(tmp_path, brokers, faults=faults) as cluster:
            history = await run_schedule(cluster, rng, seconds=SECONDS, nemeses=nemeses)
            assert_kept(cluster, history)
