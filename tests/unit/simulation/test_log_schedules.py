"""Random schedules of crashes, delays, lost answers and fences over a simulated cluster.

Invariants of the log, checked after every schedule and by consumers during it:

- I1: offsets are dense and none is given twice.
- I2: whatever was acknowledged is readable at the offset that was acknowledged, on every broker.
- I3, I4: a crash at any await leaves nothing half visible; an idempotent producer's batch is
  there once, in its order, however often it was retried and through whichever broker.
- A consumer is never told "out of range" for an offset that the log holds, and never sees an
  offset with other contents later.
- Afterwards every object that the index names is there, and none is left that it does not name.
"""

import asyncio
from random import Random

import pytest

from headwater.engine import Read
from headwater.errors import KafkaError, OffsetOutOfRange, OutOfOrderSequence
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.meta.memory import MemoryStore
from headwater.meta.store import prefix_end
from headwater.meta.values import decode
from headwater.wire.batches.batch import HEADER, Batch, batch_sizes
from tests.support.log.harness import make_batch, payloads, read_all
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.schedules import (
    begin_faults,
    disturb,
    random_settings,
    random_world,
    run_schedules,
    until_produced,
)
from tests.support.simulation.world import SimulatedCluster

PARTITIONS = 2
PRODUCERS = 3
BATCHES = 25
SECONDS = 60
CLIENT_TIMEOUT = 4.0


class ClientHistory:
    """What clients saw."""

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.sent: set[bytes] = set()
        self.seen: dict[tuple[int, int], bytes] = {}

    def acknowledge(self, partition: int, offset: int, payload: bytes) -> None:
        other = self.acknowledged.setdefault((partition, offset), payload)
        assert other == payload, f"offset {offset} was acknowledged for {other!r} and {payload!r}"

    def see(self, partition: int, offset: int, payload: bytes) -> None:
        other = self.seen.setdefault((partition, offset), payload)
        assert other == payload, f"offset {offset} held {other!r} and then {payload!r}"


async def _produce(
    world: SimulatedCluster, history: ClientHistory, producer: int, *, idempotent: bool
) -> None:
    rng = Random(world.rng.random())
    partition = producer % PARTITIONS
    sequence = 0
    for number in range(BATCHES):
        count = rng.randint(1, 4)
        filler = b"." * rng.choice([1, 10, 3000])
        payload = b"%d:%d:%s" % (producer, number, filler)
        batch = make_batch(
            payload,
            count=count,
            producer_id=producer if idempotent else -1,
            epoch=0 if idempotent else -1,
            sequence=sequence if idempotent else -1,
        )
        history.sent.add(payload)
        while True:
            offset = await _attempt(world, partition, batch)
            if offset is not None:
                history.acknowledge(partition, offset, payload)
                break
            if not idempotent:
                break  # it may or may not have landed
            await asyncio.sleep(rng.uniform(0, 1))
        sequence += count
        await asyncio.sleep(rng.uniform(0, SECONDS / BATCHES))


async def _attempt(world: SimulatedCluster, partition: int, batch: Batch) -> int | None:
    engine = world.engine()
    if engine is None:
        return None
    try:
        async with asyncio.timeout(CLIENT_TIMEOUT):
            topic = await engine.topics.find("t")
            return (await engine.append(topic, partition, [batch])).base_offset
    except OutOfOrderSequence:
        raise
    except (KafkaError, TimeoutError):
        return None


async def _consume(world: SimulatedCluster, history: ClientHistory, partition: int) -> None:
    offset = 0
    while True:
        engine = world.engine()
        if engine is not None:
            offset = await _fetch(engine, history, partition, offset)
        await asyncio.sleep(world.rng.uniform(0, 0.5))


async def _fetch(engine: LogEngine, history: ClientHistory, partition: int, offset: int) -> int:
    try:
        async with asyncio.timeout(CLIENT_TIMEOUT):
            topic = await engine.topics.find("t")
            answer = engine.read(topic, partition, offset, 5000, committed=False)
            read = answer if isinstance(answer, Read) else await answer
    except OffsetOutOfRange:
        raise
    except (KafkaError, TimeoutError):
        return offset
    for base, payload in payloads(read):
        history.see(partition, base, payload)
    for part in read.parts:
        ends = _ends(part)
        assert ends[0][0] <= offset, f"asked for {offset}, got {ends[0][0]}"
        for base, end in ends:
            assert base <= offset < end or base == offset, f"a gap at {offset}: {base}"
            offset = end
    return offset


def _ends(part: memoryview) -> list[tuple[int, int]]:
    found = []
    for position, _size, count in batch_sizes(part):
        base = HEADER.unpack_from(part, position)[0]
        found.append((base, base + count))
    return found


async def _schedule(loop: SimulatedLoop, seed: int) -> None:
    rng = Random(seed)
    world = await random_world(loop, rng, random_settings(rng))
    history = ClientHistory()
    engine = world.engine()
    assert engine is not None
    await engine.topics.create("t", PARTITIONS, {})
    begin_faults(world)
    await until_produced(
        [
            _produce(world, history, number, idempotent=number % 3 != 2)
            for number in range(PRODUCERS * 2)
        ],
        [
            disturb(world),
            *(_consume(world, history, number % PARTITIONS) for number in range(2 * PARTITIONS)),
        ],
    )
    world.stop_faults()
    await _check(world, history)
    await world.stop()


async def _check(world: SimulatedCluster, history: ClientHistory) -> None:
    for broker in world.brokers:
        if broker.engine is None:
            await broker.start()
    await asyncio.sleep(60)
    world.check_engines_live()
    store = MemoryStore(database=world.database)
    for partition in range(PARTITIONS):
        logs = []
        for broker in world.brokers:
            assert broker.engine is not None
            logs.append(await read_all(broker.engine, "t", partition))
        assert all(log == logs[0] for log in logs)
        _check_log(history, partition, logs[0])
    await _check_objects(world, store)


def _check_log(history: ClientHistory, partition: int, log: list[tuple[int, bytes]]) -> None:
    contents = dict(log)
    assert len(contents) == len(log), "an offset was given twice"
    for (where, offset), payload in history.acknowledged.items():
        if where == partition:
            assert contents.get(offset) == payload, f"acknowledged {payload!r} at {offset} is lost"
    for (where, offset), payload in history.seen.items():
        if where == partition:
            assert contents.get(offset) == payload, f"{payload!r} was read at {offset} and is gone"
    order: dict[bytes, list[int]] = {}
    for _offset, payload in log:
        assert payload in history.sent, f"nobody sent {payload!r}"
        producer, number, _ = payload.split(b":", 2)
        order.setdefault(producer, []).append(int(number))
    for producer, numbers in order.items():
        if int(producer) % 3 != 2:
            assert numbers == list(range(BATCHES)), f"producer {producer!r} wrote {numbers}"
        else:
            assert len(numbers) == len(set(numbers)), f"producer {producer!r} wrote {numbers}"


async def _check_objects(world: SimulatedCluster, store: MemoryStore) -> None:
    """After the grace times have passed exactly the objects of the index are left."""
    for _ in range(2):
        await asyncio.sleep(120)
    prefix = "d/0000/index/"
    entries = (await store.scan(prefix, prefix_end(prefix))).entries
    named = {
        entry.key
        for entry in (decode(IndexEntry, found.value) for found in entries)
        if entry.kind == WAL
    }
    there = {info.key async for info in world.objects.list("wal/")}
    assert named <= there, f"objects are gone: {named - there}"
    living = {f"wal/{name}/" for name in world.living()}
    left = {key for key in there - named if not any(key.startswith(own) for own in living)}
    assert not left, f"objects are left behind: {left}"


@pytest.mark.parametrize("block", range(8))
def test_random_schedules_keep_the_invariants(block: int) -> None:
    run_schedules(_schedule, range(block * 4, block * 4 + 4))
