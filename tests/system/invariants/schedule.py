"""One schedule: clients at work, harm being done, and the reading of everything at the end."""

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random, SystemRandom

from tests.system.invariants.brokers import ServeProcess, ServeProcesses
from tests.system.invariants.checker import violations
from tests.system.invariants.cluster import LocalCluster
from tests.system.invariants.history import History
from tests.system.invariants.nemesis import BrokerHarm, BrokerNemesis
from tests.system.invariants.producers.clients import BrokerConnection
from tests.system.invariants.producers.workload import (
    IN_FLIGHT,
    PipeliningProducer,
    consume,
    read_final,
)

SECONDS = float(os.environ.get("HEADWATER_CHAOS_SECONDS", "4"))
PARTITIONS = 2


class SeededRandom(Random):
    """Randomness that can be had again."""

    def __init__(self, chosen: int) -> None:
        super().__init__(chosen)
        self.chosen = chosen


@contextmanager
def seeded() -> Iterator[SeededRandom]:
    given = os.environ.get("HEADWATER_CHAOS_SEED")
    seed = int(given) if given else SystemRandom().randrange(2**32)
    try:
        yield SeededRandom(seed)
    except BaseException as error:
        error.add_note(f"HEADWATER_CHAOS_SEED={seed}")
        raise


def random_settings(rng: Random) -> dict[str, int]:
    """Sizes at which flushes, objects, caches and merges take every form."""
    return {
        "flush_bytes": rng.choice([1, 5_000, 8 << 20]),
        "uploads": rng.choice([1, 2, 4]),
        "inline_bytes": rng.choice([0, 2_000, 1 << 20]),
        "cache_bytes": rng.choice([1, 20_000, 1 << 20]),
        "read_bytes": rng.choice([1_000, 1 << 20]),
        "window_entries": rng.choice([1, 8, 1_024]),
        "merge_fan_in": rng.choice([2, 4, 16]),
    }


async def run_schedule(
    cluster: LocalCluster,
    rng: Random,
    nemeses: Sequence[Sequence[BrokerHarm]],
    seconds: float = SECONDS,
    *,
    enough: Callable[[], bool] = lambda: True,
) -> History:
    """Produce, consume and do harm at once; then read everything through every broker.

    Each of ``nemeses`` injects one fault after another, for the given seconds and until
    ``enough`` has happened.
    """
    history = History()
    first = await BrokerConnection.open(cluster.brokers[1])
    await first.create_topic(PARTITIONS)

    def choose() -> ServeProcess:
        up = [broker for broker in cluster.brokers.values() if broker.up]
        return rng.choice(up or list(cluster.brokers.values()))

    producers = [
        PipeliningProducer(
            f"{'i' if idempotent else 'p'}{number}",
            number % PARTITIONS,
            history,
            choose,
            Random(rng.random()),
            producer_id=await first.producer_id() if idempotent else -1,
            in_flight=in_flight,
        )
        for number, (idempotent, in_flight) in enumerate(
            [(True, IN_FLIGHT)] * 4 + [(False, IN_FLIGHT), (False, 1)]
        )
    ]
    first.close()
    stop = asyncio.Event()
    ended = asyncio.Event()
    nemesis = BrokerNemesis(cluster, history, Random(rng.random()))
    async with asyncio.timeout(seconds + 40), asyncio.TaskGroup() as tasks:
        harm = [tasks.create_task(nemesis.run(harms, stop)) for harms in nemeses]
        work = [tasks.create_task(producer.run(stop)) for producer in producers]
        for partition in range(PARTITIONS):
            for _ in range(2):
                reader = Random(rng.random())
                tasks.create_task(consume(history, partition, choose, reader, ended))
        await asyncio.sleep(seconds)
        while not enough():
            await asyncio.sleep(0.2)
        stop.set()
        await asyncio.wait([*harm, *work])
        ended.set()
    await read_finals(cluster, history, PARTITIONS)
    return history


async def read_finals(cluster: ServeProcesses, history: History, partitions: int) -> None:
    """Read every partition through every broker."""
    for broker in cluster.brokers.values():
        async with await BrokerConnection.open(broker) as connection:
            for partition in range(partitions):
                await read_final(history, connection, partition)


async def assert_kept(cluster: LocalCluster, history: History) -> None:
    found = violations(history)
    assert not found, "\n".join(found[:20])
    assert sum(1 for one in history.produced if one.offset is not None) > 50
    assert sum(len(poll.records) for poll in history.polled) > 50
    assert not cluster.crashes(), "\n".join(cluster.crashes())
    await cluster.wait_until_only_named_objects_are_left()
