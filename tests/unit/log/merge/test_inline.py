"""Records in the metadata store: they never fill it, and a topic may do without."""

from random import Random

from headwater.clock import SystemClock
from headwater.log.formats.metadata_values import INLINE, IndexEntry
from headwater.log.merge.inline_budget import InlineBudget
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits, prefix_end
from headwater.meta.values import decode
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, memory_stores, read_all, running_engine

LIMIT = 20_000
TOPICS = 200


async def inline_bytes(meta: MemoryStore) -> int:
    found = await meta.scan(keys.index(0, 0), prefix_end(keys.index(0, keys.LAST)))
    entries = [decode(IndexEntry, entry.value) for entry in found.entries]
    return sum(entry.length for entry in entries if entry.kind == INLINE)


async def test_a_store_is_never_filled_though_no_stream_has_enough_to_merge() -> None:
    meta = MemoryStore(Limits(operations=128, inline_bytes=LIMIT))
    objects = MemoryObjects(clock=SystemClock())
    settings = LogSettings(inline_bytes=2_000)
    rng = Random(3)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        await engine.topics.create("t", TOPICS, {})
        sent: dict[int, list[bytes]] = {}
        puts = 0
        for number in range(600):
            value = f"{number}:".encode() + b"x" * rng.randrange(1_500)
            partition = number % TOPICS
            await append(engine, "t", [make_batch(value)], partition)
            sent.setdefault(partition, []).append(value)
            assert await inline_bytes(meta) <= LIMIT
            if number % 25 == 24:
                await engine._maintenance.merge_recent()
                assert await inline_bytes(meta) <= LIMIT // 2
                puts += 1
        assert objects.traffic.puts <= 3 * puts
        for partition, values in sent.items():
            assert [value for _, value in await read_all(engine, "t", partition)] == values


async def test_what_an_earlier_process_left_is_counted_by_the_sweep() -> None:
    meta = MemoryStore(Limits(inline_bytes=LIMIT))
    objects = MemoryObjects(clock=SystemClock())
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("t", 3, {"retention.ms": "-1"})
        for partition in range(3):
            await append(engine, "t", [make_batch(b"x" * 5_000)], partition)
    async with running_engine(meta, objects, rng=Random(8), housekeeping=False) as engine:
        assert engine._upkeep.budget.used == 0
        await engine._maintenance.sweep()
        assert engine._upkeep.budget.used == await inline_bytes(meta) > LIMIT // 2
        await engine._maintenance.merge_recent()
        assert engine._upkeep.budget.used == await inline_bytes(meta) <= LIMIT // 2


async def test_a_cheap_topics_records_are_never_in_the_metadata_store() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("cheap", 1, {"headwater.latency": "cheap"})
        await engine.topics.create("low", 1, {"headwater.latency": "low"})
        await append(engine, "cheap", [make_batch(b"x")])
        assert await inline_bytes(meta) == 0
        await append(engine, "low", [make_batch(b"x")])
        assert await inline_bytes(meta) > 0


def test_brokers_share_what_a_store_takes() -> None:
    brokers = 1
    budget = InlineBudget(900, lambda: brokers)
    budget.added(1, 300)
    assert budget.admits(600)
    assert not budget.crowded()
    brokers = 3
    assert not budget.admits(1)
    budget.added(2, 100)
    assert budget.crowded() == [1, 2]
    budget.measured(1, 0)
    assert (budget.used, budget.crowded()) == (100, [])
