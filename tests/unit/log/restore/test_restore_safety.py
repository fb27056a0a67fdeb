"""What a restore refuses, and what neither it nor a broker deletes around it."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import ParamSpec, TypeVar

import pytest

from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError
from headwater.log.engine import open_cluster
from headwater.log.reclaim.garbage import GarbageCollector
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.claim import claim_objects, refuse_lost_metadata
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Writes
from headwater.meta.values import decode, encode
from tests.support.log.harness import append, make_batch, read_all
from tests.support.log.restoring import OBJECTS_ONLY, RestorePlace, values
from tests.support.simulation.loop import on_simulated_time

P = ParamSpec("P")
T = TypeVar("T")


@on_simulated_time
async def test_a_broken_off_restore_lets_no_broker_start_and_can_be_run_again() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"kept")])
        await place.snapshot()
    place.lose_metadata()
    done = await place.restore()
    record = decode(ClusterRecord, place.meta.database.entries[keys.CLUSTER].value)
    record.restoring = done.snapshot
    place.meta.database.apply(Writes(puts={keys.CLUSTER: encode(record), "stray": b""}))
    with pytest.raises(ConfigurationError, match="was not finished: run headwater restore again"):
        await open_cluster(place.meta, Random(1))
    assert (await place.restore()).epoch == 2
    assert await place.meta.get("stray") is None
    async with place.engine() as engine:
        assert values(await read_all(engine, "t")) == [b"kept"]


@on_simulated_time
async def test_a_dry_run_says_the_same_and_writes_nothing() -> None:
    place = RestorePlace()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await place.snapshot()
        await append(engine, "t", [make_batch(b"x")])
    place.lose_metadata()
    told = await place.restore(dry_run=True)
    assert not place.meta.database.entries
    assert told == await place.restore()


@on_simulated_time
async def test_a_store_that_is_in_use_is_not_restored_into() -> None:
    place = RestorePlace()
    async with place.engine():
        await place.snapshot()
        with pytest.raises(ConfigurationError, match=r"holds cluster .* already"):
            await place.restore()
    place.lose_metadata()
    place.meta.database.apply(Writes(puts={keys.NEXT_BROKER_EPOCH: b"", "topics/t": b""}))
    with pytest.raises(ConfigurationError, match="not empty, topics/t is there"):
        await place.restore()


@on_simulated_time
async def test_what_a_broker_counted_in_an_emptied_store_is_not_in_the_way() -> None:
    place = RestorePlace()
    async with place.engine():
        await place.snapshot()
    place.lose_metadata()
    place.meta.database.apply(Writes(puts={keys.NEXT_BROKER_EPOCH: b""}))
    await place.restore()
    assert await place.meta.get(keys.NEXT_BROKER_EPOCH) is None


class LosesContent:
    """Empties a store before the call with this number; ``left`` is negative once it has."""

    def __init__(self, meta: MemoryStore, before: int, patch: pytest.MonkeyPatch) -> None:
        self._meta, self.left = meta, before
        for name in ("get", "scan", "scan_pages", "transact"):
            patch.setattr(meta, name, self._counted(getattr(meta, name)))

    def _counted(self, call: Callable[P, T]) -> Callable[P, T]:
        def counted(*args: P.args, **kwargs: P.kwargs) -> T:
            self.left -= 1
            if self.left == -1:
                gone = Writes()
                gone.delete_range("", "\U0010ffff")
                self._meta.database.apply(gone)
            return call(*args, **kwargs)

        return counted


@on_simulated_time
async def test_a_store_that_is_emptied_during_a_snapshot_can_be_restored_into() -> None:
    """At whichever call it loses its content: the newest snapshot is one of the cluster."""
    for number in itertools.count():
        place = RestorePlace()
        async with place.engine() as engine:
            await engine.topics.create("t", 1, {})
            await place.snapshot()
            with pytest.MonkeyPatch.context() as patch:
                losing = LosesContent(place.meta, number, patch)
                with suppress(ConfigurationError, AssertionError):  # no snapshot is taken
                    await place.snapshot()
        if losing.left >= 0:
            assert number >= 6
            return
        assert (await place.restore()).topics == 1, number


@on_simulated_time
async def test_an_empty_metadata_store_in_the_place_of_a_lost_one_deletes_nothing() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x")])
        cluster = await open_cluster(place.meta, Random(1))
        await place.claim()
    place.lose_metadata()
    with pytest.raises(ConfigurationError, match=r"the metadata store is empty: .*headwater re"):
        await refuse_lost_metadata(place.meta, place.objects)
    stranger = await open_cluster(place.meta, Random(2))
    with pytest.raises(ConfigurationError, match=f"belong to cluster {cluster.id}"):
        await claim_objects(place.meta, place.objects, stranger, "memory:")
    with pytest.raises(ConfigurationError, match=f"belong to cluster {cluster.id}"):
        await place.collector().collect_orphans(())
    assert [info.key async for info in place.objects.list("wal/")]


@on_simulated_time
async def test_a_metadata_store_that_comes_back_after_a_restore_deletes_nothing() -> None:
    place = RestorePlace(whole=True)
    async with place.engine() as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x")])
        await place.snapshot(kept=1)
        await engine.delete_records(topic, 0, -1)
        await place.snapshot(kept=1)
    old = place.meta
    place.lose_metadata()
    await place.restore()
    collector = GarbageCollector(
        old, place.objects, Reclaimer(place.objects), OBJECTS_ONLY, place.clock
    )
    with pytest.raises(ConfigurationError, match="was restored to epoch 1"):
        await collector.collect_released()
    snapshots = [info.key async for info in place.objects.list("snapshots/")]
    place.meta = old
    with pytest.raises(ConfigurationError, match="was restored to epoch 1"):
        await place.snapshot(kept=1)
    assert [info.key async for info in place.objects.list("snapshots/")] == snapshots


@on_simulated_time
async def test_a_broker_that_was_left_running_ends_after_a_restore_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would go on to acknowledge what the restored cluster does not have."""
    monkeypatch.setattr("headwater.log.restore.claim.LOOK_SECONDS", 0.01)
    place = RestorePlace()
    async with place.engine() as engine:
        running = asyncio.create_task(engine.run())
        await place.snapshot()
        await asyncio.sleep(0.05)
        assert not running.done()
        place.lose_metadata()
        await place.restore()
        with pytest.raises(BaseExceptionGroup) as ended:
            await asyncio.wait_for(running, 5)
    assert ended.group_contains(ConfigurationError, match="was restored to epoch 1")
