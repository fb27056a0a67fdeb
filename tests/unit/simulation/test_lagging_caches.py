"""Brokers whose caches lag: answers come late, watches stall, break, fold, mix and fall behind.

However much they lag, a cache never leads:

- a read-to-end loop that asks any broker for the end and then fetches from any brokers gets to
  that end, with every record that was acknowledged before it began;
- no fetch skips a record or goes back, and none gets "out of range" for an offset that the
  log holds;
- once the network is well again every broker knows the same topics, bounds and records.
"""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from headwater.engine import Read, Topic
from headwater.errors import KafkaError, OffsetOutOfRange
from headwater.log.engine import LogEngine
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import MetadataStore, prefix_end
from headwater.objects.store import DeletableObjects
from headwater.wire.batches.batch import HEADER, batch_sizes
from tests.support.log.harness import make_batch, read_all
from tests.support.meta.guarded import GuardedStore
from tests.support.meta.lagging import LaggingStore, Lags
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop
from tests.support.simulation.schedules import random_settings, run_schedules, until_produced
from tests.support.simulation.world import Life, SimulatedCluster

PARTITIONS = 2
BATCHES = 30
LOOP_SECONDS = 600
"""Far longer than a read-to-end loop needs, whatever stalls."""


class LaggingWorld(SimulatedCluster):
    """Every broker sees the metadata through a network of its own."""

    def __init__(self, *, rng: Random, clock: SimulatedClock) -> None:
        super().__init__(rng=rng, clock=clock, brokers=3, settings=random_settings(rng))
        self.lags = Lags(
            answer=rng.choice([0.01, 0.5, 3]),
            watch=rng.choice([0.05, 1, 10]),
            stall=rng.choice([0, 0.05]),
            broken=rng.choice([0, 0.1, 0.5]),
            trimmed=rng.choice([0, 0.1]),
            folded=rng.choice([0, 0.5]),
            shuffled=rng.choice([0, 0.5]),
        )

    def stores(self, rng: Random, life: Life) -> tuple[MetadataStore, DeletableObjects]:
        _, objects = super().stores(rng, life)
        lagging = LaggingStore(MemoryStore(database=self.database), rng, self.lags)
        return GuardedStore(lagging, life.guard), objects

    def some(self) -> LogEngine:
        engine = self.engine()
        assert engine is not None
        return engine

    def calm(self) -> None:
        for name in Lags.__slots__:
            setattr(self.lags, name, 0.0)


class PartitionModel:
    """What a partition is known to hold: ``end`` was acknowledged, ``start`` may be deleted."""

    def __init__(self) -> None:
        self.end = 0
        self.start = 0
        self.records: dict[int, bytes] = {}

    def acknowledge(self, offset: int, count: int, payload: bytes) -> None:
        assert self.records.setdefault(offset, payload) == payload, f"{offset} was given twice"
        self.end = max(self.end, offset + count)


async def _produce(world: LaggingWorld, models: list[PartitionModel], producer: int) -> None:
    rng = Random(world.rng.random())
    for number in range(BATCHES):
        partition = rng.randrange(PARTITIONS)
        count = rng.randint(1, 3)
        payload = b"%d:%d:%s" % (producer, number, b"." * rng.choice([1, 2000]))
        engine = world.some()
        try:
            topic = await engine.topics.find("t")
            done = await engine.append(topic, partition, [make_batch(payload, count=count)])
        except KafkaError:
            continue
        models[partition].acknowledge(done.base_offset, count, payload)
        await asyncio.sleep(rng.uniform(0, 2))


async def _read_to_end(world: LaggingWorld, models: list[PartitionModel]) -> None:
    """Again and again: ask one broker for the bounds, then fetch from any until the end."""
    rng = Random(world.rng.random())
    while True:
        partition = rng.randrange(PARTITIONS)
        model = models[partition]
        acknowledged = model.end
        topic = await world.some().topics.find("t")
        bounds = await world.some().offsets(topic, partition)
        end = bounds.high_watermark
        assert end >= acknowledged, f"the end is told as {end}, {acknowledged} was acknowledged"
        offset = max(bounds.log_start, rng.randint(0, end))
        async with asyncio.timeout(LOOP_SECONDS):
            while offset < end:
                offset = await _fetch(world, model, topic, partition, offset)
                await asyncio.sleep(rng.uniform(0, 0.5))


async def _fetch(
    world: LaggingWorld, model: PartitionModel, topic: Topic, partition: int, offset: int
) -> int:
    """The offset after what one fetch from some broker gave."""
    try:
        answer = world.some().read(topic, partition, offset, 5000, committed=False)
        read = answer if isinstance(answer, Read) else await answer
    except OffsetOutOfRange:
        assert offset < model.start, f"{offset} is there and was called out of range"
        return model.start
    assert read.offsets.log_start <= model.start, "records are hidden that nobody deleted"
    for part in read.parts:
        for position, size, count in batch_sizes(part):
            base = HEADER.unpack_from(part, position)[0]
            assert base <= offset < base + count, f"asked for {offset}, got {base}"
            payload = model.records.get(base)
            assert payload is None or payload in bytes(part[position : position + size])
            offset = base + count
    return offset


async def _trim(world: LaggingWorld, models: list[PartitionModel]) -> None:
    rng = Random(world.rng.random())
    while True:
        await asyncio.sleep(rng.uniform(1, 10))
        partition = rng.randrange(PARTITIONS)
        model = models[partition]
        before = rng.randint(model.start, model.end)
        model.start = before
        engine = world.some()
        assert (
            await engine.delete_records(await engine.topics.find("t"), partition, before) >= before
        )


async def _change_topics(world: LaggingWorld) -> None:
    """Make and delete a topic through any brokers, while others look for it."""
    rng = Random(world.rng.random())
    while True:
        created = await world.some().topics.create("changing", 1, {})
        assert (await world.some().topics.find("changing")).name == created.name
        await asyncio.sleep(rng.uniform(0, 5))
        await world.some().topics.delete("changing")
        await asyncio.sleep(rng.uniform(0, 5))


async def _look_for_topics(world: LaggingWorld) -> None:
    rng = Random(world.rng.random())
    while True:
        topics = world.some().topics
        with suppress(KafkaError):
            await (topics.find("changing") if rng.random() < 0.7 else topics.all())
        await asyncio.sleep(rng.uniform(0, 1))


async def _schedule(loop: SimulatedLoop, seed: int) -> None:
    world = LaggingWorld(rng=Random(seed), clock=SimulatedClock(loop))
    await world.start()
    await world.some().topics.create("t", PARTITIONS, {})
    models = [PartitionModel() for _ in range(PARTITIONS)]
    await until_produced(
        [_produce(world, models, number) for number in range(3)],
        [
            *(_read_to_end(world, models) for _ in range(3)),
            _trim(world, models),
            _change_topics(world),
            _look_for_topics(world),
        ],
    )
    world.calm()
    await asyncio.sleep(60)
    world.check_engines_live()
    await _check_agreement(world, models)
    await world.stop()


async def _check_agreement(world: LaggingWorld, models: list[PartitionModel]) -> None:
    engines = [broker.engine for broker in world.brokers if broker.engine is not None]
    store = MemoryStore(database=world.database)
    topics = await store.scan(keys.TOPICS, prefix_end(keys.TOPICS))
    there = {entry.key.removeprefix(keys.TOPICS) for entry in topics.entries}
    for engine in engines:
        assert set(engine.topics.names()) == there, "a broker knows other topics than there are"
    for partition, model in enumerate(models):
        logs = [await read_all(engine, "t", partition) for engine in engines]
        assert all(log == logs[0] for log in logs)
        contents = dict(logs[0])
        for offset, payload in model.records.items():
            assert offset < model.start or contents.get(offset) == payload, f"{offset} is lost"


@pytest.mark.parametrize("block", range(3))
def test_lagging_caches_never_lead(block: int) -> None:
    run_schedules(_schedule, range(block * 6, block * 6 + 6))
