"""librdkafka's idempotent producers on an object store that fails each one's first request.

And about every third of the others.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from confluent_kafka import KafkaError, Message, Producer

from headwater.clock import SystemClock
from headwater.errors import StoreUnavailable
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.objects.memory import MemoryObjects
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import decode_batch
from tests.support.broker.running import RunningBroker, running_broker
from tests.support.log.harness import running_engine
from tests.support.objects.guarded import GuardedObjects

T = TypeVar("T")

PRODUCERS = 12
RECORDS = 25
OVERLAPPING = LogSettings(inline_bytes=0, flush_bytes=1, uploads=4)


async def test_every_record_is_there_once_and_in_order() -> None:
    random = Random(5)
    first, failures = False, 0

    async def sometimes(work: Callable[[], Awaitable[T]]) -> T:
        nonlocal first, failures
        if not first and random.random() > 0.3:
            return await work()
        first, failures = False, failures + 1
        await asyncio.sleep(random.uniform(0, 0.02))
        raise StoreUnavailable("down")

    objects = GuardedObjects(MemoryObjects(clock=SystemClock()), sometimes)
    async with (
        running_engine(MemoryStore(), objects, settings=OVERLAPPING, housekeeping=False) as engine,
        running_broker(engine) as broker,
    ):
        await broker.create_topic("t")
        names = [f"p{number}" for number in range(PRODUCERS)]
        for name in names:
            first = True
            await asyncio.to_thread(produce, f"127.0.0.1:{broker.port}", name)
        found = await values(broker)
    assert failures >= PRODUCERS
    assert found == [f"{name} {number}" for name in names for number in range(RECORDS)]


def produce(address: str, name: str) -> None:
    """Send records without waiting for replies."""
    failed: list[str] = []

    def report(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 20,
            "log_level": 0,
        }
    )
    producer.list_topics("t", timeout=10)
    producer.poll(0.2)  # it gets its id meanwhile
    for number in range(RECORDS):
        producer.produce("t", f"{name} {number}".encode(), partition=0, on_delivery=report)
        producer.poll(0.005)
    assert producer.flush(30) == 0
    assert not failed, failed[:3]


async def values(broker: RunningBroker) -> list[str]:
    """All values in the log, in order."""
    topic = await broker.engine.topics.find("t")
    end = (await broker.engine.offsets(topic, 0)).high_watermark
    found: list[str] = []
    while len(found) < end:
        read = broker.engine.read(topic, 0, len(found), 1 << 20, committed=True)
        if isinstance(read, Awaitable):
            read = await read
        for batch in split_batches(b"".join(read.parts)):
            found += [(record.value or b"").decode() for record in decode_batch(bytes(batch.data))]
    return found
