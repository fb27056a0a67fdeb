"""What writes under a name, and how all of it gives way to the next name's."""

import asyncio
from collections.abc import Sequence

import pytest

from headwater.log.append.commit import Fenced
from headwater.log.append.wal_files import Section
from headwater.log.formats.metadata_values import INLINE
from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.objects.store import Buffer
from tests.support.log.harness import append, make_batch, memory_stores, read_all, running_engine
from tests.support.simulation.loop import on_simulated_time


async def test_a_fenced_incarnation_is_replaced_as_a_whole() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        first = engine._current.active
        assert engine.incarnation == first.name
        await fence(meta, first.name)
        await engine.become_new_incarnation()
        second = engine._current.active
        assert engine.incarnation == second.name != first.name
        assert second.writer is not first.writer
        assert second.merger is not first.merger
        assert not second.fenced.is_set()
        await append(engine, "t", [make_batch(b"b")])
        assert await read_all(engine, "t") == [(0, b"a"), (1, b"b")]
    await meta.close()


@on_simulated_time
async def test_a_fence_that_only_a_merge_notices_ends_the_incarnation_too() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects) as engine:
        topic = await engine.topics.create("t", 1, {})
        for number in range(2 * LogSettings().merge_fan_in):
            await append(engine, "t", [make_batch(b"%d" % number)])
        first = engine._current.active
        await fence(meta, first.name)
        await first.merger.merge(topic.streams, thorough=True)
        while engine.incarnation == first.name:
            await asyncio.sleep(0.01)
        await append(engine, "t", [make_batch(b"after")])
        assert (await read_all(engine, "t"))[-1][1] == b"after"
    await meta.close()


@on_simulated_time
async def test_a_fence_that_a_merge_notices_first_waits_for_pending_appends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meta, objects = memory_stores()
    uploads = asyncio.Event()
    async with running_engine(meta, objects) as engine:
        topic = await engine.topics.create("t", 1, {})
        for number in range(2 * LogSettings().merge_fan_in):
            await append(engine, "t", [make_batch(b"%d" % number)])
        first = engine._current.active
        await fence(meta, first.name)
        write = first.writer._files.write

        async def delayed(parts: Sequence[Buffer]) -> Section:
            await uploads.wait()
            return await write(parts)

        monkeypatch.setattr(first.writer._files, "write", delayed)
        pending = asyncio.create_task(append(engine, "t", [make_batch(bytes(100_000))]))
        await asyncio.sleep(0.1)
        await first.merger.merge(topic.streams, thorough=True)
        await asyncio.sleep(1)
        assert engine.incarnation == first.name
        uploads.set()
        with pytest.raises(Fenced):
            await pending
        while engine.incarnation == first.name:
            await asyncio.sleep(0.01)
    await meta.close()


async def test_every_part_that_keeps_track_hears_of_a_commit() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        (stream,) = topic.streams
        waiter = engine.waiter({stream: await engine.offsets(topic, 0)})
        await append(engine, "t", [make_batch(b"a")])
        assert await waiter.wait(0)
        waiter.close()
        entry = engine._streams[stream].find(0)
        assert entry is not None
        assert (entry.kind, entry.data) == (INLINE, None)
        assert engine._loader.cached(stream, entry, 0) is not None
        assert engine._upkeep.budget.counted(stream) == entry.length
        assert engine._maintenance._rounds._small[stream].entries == 1
    await meta.close()
