"""Random schedules with compactors: jobs cut off anywhere, rivals, trims, deletions and garbage.

Checked by consumers during every schedule and again after it:

- A consumer sees no gap and no repeat, and an offset never holds another record; only records
  that compaction may drop can be missing.
- It gets "out of range" only below a log start that was requested.
- Afterwards every object that the index or the table names is there, no job is open, and no
  object, release or pin is left over.
"""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from headwater.engine import Read, Topic
from headwater.errors import KafkaError, OffsetOutOfRange
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import INLINE, IndexEntry, Release
from headwater.log.jobs.jobs import TABLES
from headwater.log.reclaim.releases import object_keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import prefix_end
from headwater.meta.values import decode
from headwater.wire.batches.batch import CONTROL, HEADER, batch_sizes, split_batches
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from tests.support.simulation.compactors import DROPPED, SimulatedCatalog, SimulatedCompactor
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
BATCHES = 20
SECONDS = 60
CLIENT_TIMEOUT = 4.0
TRIMMED = 1
"""The partition whose log start is moved."""


class TopicHistory:
    """What clients of the lasting topic did and saw."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], bytes] = {}
        self.log_start = 0

    def learn(self, partition: int, offset: int, value: bytes) -> None:
        other = self.known.setdefault((partition, offset), value)
        assert other == value, f"offset {offset} held {other!r} and then {value!r}"

    def check(self, partition: int, start: int, end: int, found: dict[int, bytes]) -> None:
        """A consumer went from ``start`` to ``end`` and saw these records."""
        for offset, value in found.items():
            self.learn(partition, offset, value)
        for offset in range(start, end):
            value = self.known.get((partition, offset), DROPPED)
            assert offset in found or value.startswith(DROPPED), f"{value!r} at {offset} is lost"


async def _produce(world: SimulatedCluster, history: TopicHistory, producer: int) -> None:
    rng = Random(world.rng.random())
    partition = producer % PARTITIONS
    for number in range(BATCHES):
        values = [
            b"%s%d:%d:%d%s"
            % (rng.choice([b"", b"", DROPPED]), producer, number, n, b"." * rng.choice([1, 300]))
            for n in range(rng.randint(1, 4))
        ]
        records = [Record(n, 1_700_000_000_000 + n, b"k", value) for n, value in enumerate(values)]
        batch = split_batches(encode_batch(records))
        engine = world.engine()
        if engine is not None:
            try:
                async with asyncio.timeout(CLIENT_TIMEOUT):
                    topic = await engine.topics.find("t")
                    base = (await engine.append(topic, partition, batch)).base_offset
                for n, value in enumerate(values):
                    history.learn(partition, base + n, value)
            except (KafkaError, TimeoutError):
                pass  # it may or may not have landed
        await asyncio.sleep(rng.uniform(0, 2 * SECONDS / BATCHES))


async def _consume(world: SimulatedCluster, history: TopicHistory, partition: int) -> None:
    offset = 0
    while True:
        engine = world.engine()
        if engine is not None:
            offset = await _fetch(engine, history, partition, offset)
        if world.rng.random() < 0.02:
            offset = world.rng.randint(0, offset)  # a consumer that reads again
        await asyncio.sleep(world.rng.uniform(0, 0.5))


async def _fetch(engine: LogEngine, history: TopicHistory, partition: int, offset: int) -> int:
    try:
        async with asyncio.timeout(CLIENT_TIMEOUT):
            topic = await engine.topics.find("t")
            answer = engine.read(topic, partition, offset, 2000, committed=True)
            read = answer if isinstance(answer, Read) else await answer
    except OffsetOutOfRange:
        assert partition == TRIMMED
        assert offset < history.log_start, f"{offset} is out of range"
        return history.log_start
    except (KafkaError, TimeoutError):
        return offset
    end, found = records_of(read, offset)
    history.check(partition, offset, end, found)
    return end


def records_of(read: Read, offset: int) -> tuple[int, dict[int, bytes]]:
    """Where a client goes on after a read at ``offset``, and the values that it took from it."""
    found: dict[int, bytes] = {}
    for part in read.parts:
        for position, size, _ in batch_sizes(part):
            fields = HEADER.unpack_from(part, position)
            end = fields[0] + fields[6] + 1
            assert fields[0] <= offset < end, f"[{fields[0]}, {end}) at {offset}"
            if not fields[5] & CONTROL:
                for record in decode_batch(part[position : position + size]):
                    if record.offset >= offset:
                        assert record.offset not in found
                        assert record.value is not None
                        found[record.offset] = record.value
            offset = end
    return offset, found


async def _fail_commits(world: SimulatedCluster, table: SimulatedCatalog) -> None:
    while True:
        await asyncio.sleep(world.rng.uniform(5, 30))
        table.faults = world.rng.choice([0, 0.3])


async def _trim(world: SimulatedCluster, history: TopicHistory) -> None:
    """Move a log start; make, fill and delete a topic of one name again and again."""
    rng = world.rng
    while True:
        await asyncio.sleep(rng.uniform(0.5, 4))
        engine = world.engine()
        if engine is None:
            continue
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT):
                await _change(engine, history, rng)
        except (KafkaError, TimeoutError):
            continue


async def _change(engine: LogEngine, history: TopicHistory, rng: Random) -> None:
    match rng.randrange(6):
        case 0:
            topic = await engine.topics.find("t")
            end = (await engine.offsets(topic, TRIMMED)).high_watermark
            target = rng.randint(history.log_start, max(end, history.log_start))
            history.log_start = target
            await engine.delete_records(topic, TRIMMED, target)
        case 1:
            await engine.topics.delete("gone")
        case 2:
            await engine.topics.create("gone", 1, {})
        case _:
            topic = await engine.topics.find("gone")
            records = [Record(0, 5, None, b"x" * 50)]
            await engine.append(topic, 0, split_batches(encode_batch(records)))


async def _rivals(
    world: SimulatedCluster, table: SimulatedCatalog, compactors: list[SimulatedCompactor]
) -> None:
    """Kill compactors and start others in their place."""
    number = 0
    while True:
        await asyncio.sleep(world.rng.uniform(0.5, 8))
        which = world.rng.randrange(len(compactors))
        if compactors[which].task.done():
            compactors[which].task.result()
        await compactors[which].kill()
        number += 1
        compactors[which] = SimulatedCompactor(world, table, f"rival-{number}")


async def _schedule(loop: SimulatedLoop, seed: int) -> None:
    rng = Random(seed)
    # Small objects and reads, so that there is much to compact and to read across.
    settings = replace(
        random_settings(rng),
        flush_bytes=rng.choice([1, 2000]),
        object_bytes=rng.choice([1, 10_000]),
        read_bytes=rng.choice([500, 1 << 20]),
    )
    world = await random_world(loop, rng, settings)
    history = TopicHistory()
    engine = world.engine()
    assert engine is not None
    topic = await engine.topics.create("t", PARTITIONS, {"retention.ms": "-1"})
    begin_faults(world)
    table = SimulatedCatalog(rng)
    compactors = [
        SimulatedCompactor(world, table, f"first-{number}") for number in range(rng.choice([1, 3]))
    ]
    await until_produced(
        [_produce(world, history, number) for number in range(4)],
        [
            disturb(world),
            _fail_commits(world, table),
            _trim(world, history),
            _rivals(world, table, compactors),
            *(_consume(world, history, number % PARTITIONS) for number in range(4)),
        ],
    )
    world.stop_faults()
    table.faults = 0
    await _check(world, history, table, topic, compactors)
    await world.stop()


async def _check(
    world: SimulatedCluster,
    history: TopicHistory,
    table: SimulatedCatalog,
    topic: Topic,
    compactors: list[SimulatedCompactor],
) -> None:
    for broker in world.brokers:
        if broker.engine is None:
            await broker.start()
    await asyncio.sleep(120)
    for compactor in compactors:
        if compactor.task.done():
            compactor.task.result()
        await compactor.kill()
    # The next process finishes the jobs that they left.
    last = SimulatedCompactor(world, table, "last", only_finish=True)
    await asyncio.sleep(120)
    world.check_engines_live()
    for partition in range(PARTITIONS):
        for broker in world.brokers:
            assert broker.engine is not None
            await _read_whole(broker.engine, history, topic, partition)
    await asyncio.sleep(240)
    await last.kill()
    await asyncio.sleep(60)
    await _check_leftovers(world, table, topic)


async def _read_whole(
    engine: LogEngine, history: TopicHistory, topic: Topic, partition: int
) -> None:
    bounds = await engine.offsets(topic, partition)
    offset = bounds.log_start
    while offset < bounds.high_watermark:
        answer = engine.read(topic, partition, offset, 3000, committed=True)
        end, found = records_of(answer if isinstance(answer, Read) else await answer, offset)
        assert end > offset
        history.check(partition, offset, end, found)
        offset = end


async def _check_leftovers(world: SimulatedCluster, table: SimulatedCatalog, topic: Topic) -> None:
    store = MemoryStore(database=world.database)

    async def values(prefix: str) -> list[tuple[str, bytes]]:
        found = (await store.scan(prefix, prefix_end(prefix))).entries
        return [(entry.key, entry.value) for entry in found]

    entries = [decode(IndexEntry, value) for _, value in await values("d/0000/index/")]
    named = {
        key
        for entry in entries
        if entry.kind != INLINE
        for key in object_keys(entry.kind, entry.key)
    }
    there = {info.key async for info in world.objects.list("wal/")}
    there |= {info.key async for info in world.objects.list(TABLES)}
    assert named <= there, f"objects are gone: {named - there}"
    in_table = table.files.get(str(topic.id), set())
    assert in_table <= there, f"the table lacks {in_table - there}"
    living = {f"wal/{name}/" for name in world.living()}
    left = {key for key in there - named if not any(key.startswith(own) for own in living)}
    assert not left, f"objects are left behind: {left}"
    recorded = {
        key.removeprefix("d/0000/object/").rpartition("/")[0]
        for key, _ in await values("d/0000/object/")
    }
    assert not {key for key in recorded - there if key.startswith(TABLES)}
    for prefix in ("d/0000/job/", "d/0000/pin/", "d/0000/table-release/"):
        assert not await values(prefix), prefix
    for _, value in await values("d/0000/release/"):
        # A living broker may still add to one of its objects.
        chunks = decode(Release, value).chunks
        assert any(key.startswith(tuple(living)) for key, _, _ in chunks), f"{chunks} stay"


@pytest.mark.parametrize("block", range(6))
def test_random_schedules_with_compactors_keep_the_invariants(block: int) -> None:
    run_schedules(_schedule, range(block * 3, block * 3 + 3))
