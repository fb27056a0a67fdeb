"""librdkafka's own idempotent producers through brokers that are killed and stopped."""

import asyncio
import itertools
import threading
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.invariants.clients import TOPIC, Connection, now
from tests.invariants.cluster import Cluster, running_cluster
from tests.invariants.history import History, Produced
from tests.invariants.nemesis import Harm, Nemesis
from tests.invariants.schedule import PARTITIONS, SECONDS, assert_kept, read_finals, seeded

pytestmark = pytest.mark.timeout(SECONDS + 90)

FLUSH_SECONDS = 45.0


def produce(
    cluster: Cluster, name: str, stop: threading.Event, loop: asyncio.AbstractEventLoop
) -> list[Produced]:
    """Send numbered records to every partition until ``stop``; returns what became of each."""
    done: list[Produced] = []
    addresses = ",".join(f"127.0.0.1:{broker.port}" for broker in cluster.brokers.values())
    producer = Producer(
        {
            "bootstrap.servers": addresses,
            "enable.idempotence": True,
            "linger.ms": 1,
            "message.timeout.ms": 120_000,
            "socket.timeout.ms": 2_000,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.max.ms": 200,
        }
    )
    for number in itertools.count():
        if stop.is_set():
            break
        for partition in range(PARTITIONS):
            value = f"{name}:{partition}:{number}".encode()
            sent = loop.time()

            def report(
                error: KafkaError | None,
                message: Message,
                number: int = number,
                partition: int = partition,
                value: bytes = value,
                sent: float = sent,
            ) -> None:
                done.append(
                    Produced(
                        producer=f"{name}:{partition}",
                        idempotent=True,
                        number=number,
                        partition=partition,
                        broker=-1,
                        values=(value,),
                        offset=message.offset() if error is None else None,
                        error=0 if error is None else error.code(),
                        invoked=sent,
                        completed=loop.time(),
                    )
                )

            producer.produce(TOPIC, value, partition=partition, on_delivery=report)
        producer.poll(0.002)
    assert producer.flush(FLUSH_SECONDS) == 0, "records were not delivered"
    return done


async def test_idempotent_producers_of_librdkafka_write_once_and_in_order(tmp_path: Path) -> None:
    with seeded() as rng:
        async with running_cluster(tmp_path, 3) as cluster:
            async with await Connection.open(cluster.brokers[1]) as connection:
                await connection.create_topic(PARTITIONS)
            history = History()
            stop, stopping = asyncio.Event(), threading.Event()
            nemesis = Nemesis(cluster, history, Random(rng.random()))
            loop = asyncio.get_running_loop()
            harms = [Harm.KILL, Harm.PAUSE, Harm.LONG_PAUSE]
            harm = asyncio.create_task(nemesis.run(harms, stop))
            work = [
                asyncio.create_task(asyncio.to_thread(produce, cluster, name, stopping, loop))
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
