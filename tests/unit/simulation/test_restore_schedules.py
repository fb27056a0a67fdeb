"""Random schedules that end with the loss of the metadata store, and go on after a restore.

Brokers flush, merge, trim, take snapshots and collect garbage; the pipeline's own saga compacts and
rewrites; all of them are killed at any await. Then the metadata store is gone. Checked:

- A record that the snapshot has, or that was in a file or a merged object, is at its offset; one
  that a flush wrote to an object is in the log once; nothing is there twice.
- The table has exactly the files of the index, whatever happened before and after.
- After the restore producers, merges, compaction and garbage collection go on: what is in the log
  stays, every object of the index exists, and no job is refused.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from headwater.engine import Read, Topic
from headwater.errors import KafkaError
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import (
    INLINE,
    OBJECTLESS,
    PARQUET,
    WAL,
    IndexEntry,
    Layout,
    Tail,
)
from headwater.log.jobs.jobs import parse_file_key
from headwater.log.reclaim.releases import object_keys
from headwater.log.restore.recovery import is_merged
from headwater.log.restore.restore import restore, snapshots_in
from headwater.log.restore.restored import TableHolding
from headwater.log.restore.snapshots import read_snapshot
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.values import decode
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import Record, encode_batch
from tests.support.simulation.loop import SimulatedLoop
from tests.support.simulation.sagas import Catalog, SagaDriver, tasks_in_memory
from tests.support.simulation.schedules import (
    begin_faults,
    disturb,
    random_settings,
    random_world,
    run_schedules,
    until_produced,
)
from tests.support.simulation.world import SimulatedBroker, SimulatedCluster, at_once
from tests.unit.simulation.test_compaction_schedules import records_of

PARTITIONS = 2
BATCHES = 25
SECONDS = 60
CLIENT_TIMEOUT = 4.0
TRIMMED = 1


class Acknowledged:
    """By partition and offset."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], bytes] = {}

    def learn(self, partition: int, offset: int, value: bytes) -> None:
        assert self.records.setdefault((partition, offset), value) == value


async def _produce(world: SimulatedCluster, known: Acknowledged, producer: str) -> None:
    rng = Random(world.rng.random())
    for number in range(BATCHES):
        partition = rng.randrange(PARTITIONS)
        values = [
            b"%s:%d:%d%s" % (producer.encode(), number, n, b"." * rng.choice([1, 300]))
            for n in range(rng.randint(1, 4))
        ]
        records = [Record(n, 1_700_000_000_000 + n, b"k", value) for n, value in enumerate(values)]
        engine = world.engine()
        if engine is not None:
            try:
                async with asyncio.timeout(CLIENT_TIMEOUT):
                    topic = await engine.topics.find("t")
                    batch = split_batches(encode_batch(records))
                    base = (await engine.append(topic, partition, batch)).base_offset
                for n, value in enumerate(values):
                    known.learn(partition, base + n, value)
            except (KafkaError, TimeoutError):
                pass  # it may or may not have landed
        await asyncio.sleep(rng.uniform(0, 2 * SECONDS / BATCHES))


async def _rivals(
    world: SimulatedCluster, catalog: Catalog, drivers: list[SagaDriver], epoch: int
) -> None:
    while True:
        await asyncio.sleep(world.rng.uniform(1, 15))
        catalog.faults = world.rng.choice([0, 0, 0.2])
        which = world.rng.randrange(len(drivers))
        if drivers[which].task.done():
            drivers[which].task.result()
        await drivers[which].kill()
        drivers[which] = SagaDriver(world, catalog, epoch)


async def _trim(world: SimulatedCluster) -> None:
    rng = world.rng
    while True:
        await asyncio.sleep(rng.uniform(5, 40))
        engine = world.engine()
        if engine is not None:
            try:
                async with asyncio.timeout(CLIENT_TIMEOUT):
                    topic = await engine.topics.find("t")
                    end = (await engine.offsets(topic, TRIMMED)).high_watermark
                    await engine.delete_records(topic, TRIMMED, rng.randint(0, end // 2))
            except (KafkaError, TimeoutError):
                continue


async def _lose_and_restore(
    world: SimulatedCluster, catalog: Catalog
) -> tuple[MemoryDatabase, MemoryStore]:
    """Kill every process and restore into an empty store; returns the old store's data."""
    for broker in world.brokers:
        await broker.kill()
        world.departed.append(broker)
    world.stop_faults()
    lost, world.database = world.database, MemoryDatabase()
    store = MemoryStore(world.limits, database=world.database)

    async def holdings(of: object, topic_ids: object) -> dict[str, TableHolding]:
        if world.rng.random() < 0.5:
            return {}  # no catalog answers
        return {
            topic_id: TableHolding(frozenset(files), catalog.marks(topic_id))
            for topic_id, files in catalog.files.items()
        }

    await restore(store, world.objects, world.clock, holdings=holdings, offload=at_once)
    world.brokers = [SimulatedBroker(world, broker.broker_id) for broker in world.brokers]
    await world.start()
    return lost, store


def _entries(database: MemoryDatabase, stream: int) -> list[IndexEntry]:
    prefix = keys.index(0, stream)
    found = sorted(key for key in database.entries if key.startswith(prefix))
    return [decode(IndexEntry, database.entries[key].value) for key in found]


async def _log(engine: LogEngine, topic: Topic, partition: int) -> dict[int, bytes]:
    bounds = await engine.offsets(topic, partition)
    offset, log = bounds.log_start, dict[int, bytes]()
    while offset < bounds.high_watermark:
        answer = engine.read(topic, partition, offset, 3000, committed=True)
        end, found = records_of(answer if isinstance(answer, Read) else await answer, offset)
        assert end > offset
        log |= found
        offset = end
    return log


async def _check_restored(
    world: SimulatedCluster, lost: MemoryDatabase, snapshot: dict[str, bytes], known: Acknowledged
) -> Acknowledged:
    """Compare the log with what was acknowledged and survived; returns what it has."""
    engine = world.brokers[0].engine
    assert engine is not None
    topic = await engine.topics.find("t")
    after = Acknowledged()
    for partition, stream in enumerate(topic.streams):
        log = await _log(engine, topic, partition)
        counts = Counter(log.values())
        assert not [value for value, count in counts.items() if count > 1]
        stored = snapshot.get(keys.tail(0, stream))
        end = 0 if stored is None else decode(Tail, stored).high_watermark
        layout = lost.entries.get(keys.layout(0, stream))
        log_start = 0 if layout is None else decode(Layout, layout.value).log_start
        entries = _entries(lost, stream)
        for (where, offset), value in known.records.items():
            if where != partition or offset < log_start:
                continue
            entry = next(one for one in entries if one.end > offset)
            exact = entry.kind not in (INLINE, WAL) or is_merged(entry.key)
            if offset < end or exact:
                assert log.get(offset) == value, f"{value!r} was at {offset} in {entry}"
            elif entry.kind == WAL:
                assert counts[value] == 1, f"{value!r} of {entry} is lost"
        for offset, value in log.items():
            after.learn(partition, offset, value)
    return after


def _check_table(world: SimulatedCluster, catalog: Catalog, topic: Topic) -> None:
    """The table has the files of the index; those without rows it never takes."""
    indexed = {
        entry.key: entry.end
        for stream in topic.streams
        for entry in _entries(world.database, stream)
        if entry.kind == PARQUET
    }
    there = catalog.files.get(str(topic.id), {})
    assert there.keys() <= indexed.keys(), f"the log lacks {there.keys() - indexed.keys()}"
    assert indexed.keys() <= there.keys(), f"the table lacks {indexed.keys() - there.keys()}"
    for key, end in indexed.items():
        name = parse_file_key(key)
        assert name is not None
        assert catalog.marks(str(topic.id))[topic.streams[name.partition]] >= end


async def _check_objects(world: SimulatedCluster, topic: Topic) -> None:
    there = {info.key async for info in world.objects.list("")}
    named = {
        key
        for stream in topic.streams
        for entry in _entries(world.database, stream)
        if entry.kind not in OBJECTLESS
        for key in object_keys(entry.kind, entry.key)
    }
    assert named <= there, f"objects are gone: {named - there}"


async def _life(
    world: SimulatedCluster, catalog: Catalog, known: Acknowledged, epoch: int, name: str
) -> list[SagaDriver]:
    drivers = [SagaDriver(world, catalog, epoch) for _ in range(world.rng.choice([1, 2]))]
    await until_produced(
        [_produce(world, known, f"{name}{number}") for number in range(3)],
        [disturb(world), _rivals(world, catalog, drivers, epoch), _trim(world)],
    )
    return drivers


async def _schedule(loop: SimulatedLoop, seed: int) -> None:
    rng = Random(seed)
    settings = replace(
        random_settings(rng),
        flush_bytes=rng.choice([1, 2000]),
        object_bytes=rng.choice([1, 10_000]),
        read_bytes=rng.choice([500, 1 << 20]),
        snapshot_interval_ms=rng.choice([10_000, 40_000]),
    )
    world = await random_world(loop, rng, settings)
    catalog = Catalog(rng)
    with pytest.MonkeyPatch.context() as patch:
        tasks_in_memory(patch, world)
        engine = world.engine()
        assert engine is not None
        topic = await engine.topics.create("t", PARTITIONS, {"retention.ms": "-1"})
        begin_faults(world)
        await asyncio.sleep(60)  # until there is a snapshot
        known = Acknowledged()
        for epoch in range(rng.choice([1, 1, 2])):
            begin_faults(world)
            for driver in await _life(world, catalog, known, epoch, f"p{epoch}-"):
                await driver.kill()
            newest = (await snapshots_in(world.objects))[-1]
            snapshot = dict((await read_snapshot(world.objects, newest))[1])
            lost, _ = await _lose_and_restore(world, catalog)
            known = await _check_restored(world, lost, snapshot, known)
            catalog.faults = 0
        await _go_on(world, catalog, known, topic, epoch + 1)
    await world.stop()


def _not_compacted(world: SimulatedCluster, topic: Topic) -> list[IndexEntry]:
    return [
        entry
        for stream in topic.streams
        for entry in _entries(world.database, stream)
        if entry.kind in (INLINE, WAL) and not entry.set_aside
    ]


async def _go_on(
    world: SimulatedCluster, catalog: Catalog, known: Acknowledged, topic: Topic, epoch: int
) -> None:
    driver = SagaDriver(world, catalog, epoch)
    await asyncio.gather(*(_produce(world, known, f"after-{number}") for number in range(3)))
    # Faults of the schedule may leave a job to a take-over, which takes some minutes.
    async with asyncio.timeout(1200):
        while _not_compacted(world, topic):
            assert not driver.failures, driver.failures
            await asyncio.sleep(20)
    assert not driver.failures, driver.failures
    await driver.kill()
    world.check_engines_live()
    for partition in range(len(topic.streams)):
        for broker in world.brokers:
            assert broker.engine is not None
            log = await _log(broker.engine, topic, partition)
            for (where, offset), value in known.records.items():
                assert where != partition or log.get(offset) == value, f"{value!r} at {offset}"
    await asyncio.sleep(240)
    _check_table(world, catalog, topic)
    await _check_objects(world, topic)


@pytest.mark.parametrize("block", range(4))
def test_log_and_table_are_one_set_of_records_after_a_restore(block: int) -> None:
    run_schedules(_schedule, range(block * 2, block * 2 + 2))
