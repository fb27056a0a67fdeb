"""A metadata store that is emptied, or restored into, under a broker that runs on."""

import asyncio

import pytest

from headwater.cluster_record import CHECK_SECONDS, ClusterRecord
from headwater.errors import ConfigurationError, KafkaError, KafkaStorageError, StoreGone
from headwater.log.restore.snapshots import EVERYTHING
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Writes
from headwater.meta.values import decode, encode
from headwater.producer_ids import StoredProducerIds
from tests.support.log.harness import append, make_batch, memory_stores, running_engine
from tests.support.simulation.loop import on_simulated_time


def empty(store: MemoryStore) -> None:
    writes = Writes()
    writes.delete_range(*EVERYTHING)
    store.database.apply(writes)


def begin_epoch(store: MemoryStore) -> None:
    cluster = decode(ClusterRecord, store.database.entries[keys.CLUSTER].value)
    cluster.epoch += 1
    empty(store)
    store.database.apply(Writes(puts={keys.CLUSTER: encode(cluster)}))


LOSSES = {"was emptied": empty, "was restored and has restore epoch 1": begin_epoch}


@pytest.mark.parametrize("loss", LOSSES)
@on_simulated_time
async def test_a_running_broker_ends_and_acknowledges_nothing(loss: str) -> None:
    """It would give offsets again that records which are still in objects have."""
    store, objects = memory_stores()
    async with running_engine(store, objects, housekeeping=False) as engine:
        running = asyncio.create_task(engine.run())
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        await asyncio.sleep(0.01)  # it follows changes
        LOSSES[loss](store)
        for _ in range(3):
            with pytest.raises(KafkaError):
                await engine.append(topic, 0, [make_batch(b"again")])
            await asyncio.sleep(0.05)
        with pytest.raises(BaseExceptionGroup) as ended:
            await running
    assert ended.group_contains(ConfigurationError, match=f"{loss}.*this broker stops")


@pytest.mark.parametrize("loss", LOSSES)
@on_simulated_time
async def test_a_broker_that_writes_nothing_ends_as_soon_as_it_hears_of_it(loss: str) -> None:
    store, objects = memory_stores()
    async with running_engine(store, objects, housekeeping=False) as engine:
        running = asyncio.create_task(engine.run())
        await asyncio.sleep(0.01)  # it follows changes
        LOSSES[loss](store)
        with pytest.raises(BaseExceptionGroup) as ended:
            await asyncio.wait_for(running, CHECK_SECONDS / 2)
    assert ended.group_contains(ConfigurationError, match=loss)


@pytest.mark.parametrize("loss", LOSSES)
@on_simulated_time
async def test_no_name_to_write_under_is_taken(loss: str) -> None:
    store, objects = memory_stores()
    async with running_engine(store, objects, housekeeping=False) as engine:
        LOSSES[loss](store)
        with pytest.raises(ConfigurationError, match=loss):
            await engine.become_new_incarnation()
        prefix = keys.incarnations(0)
        assert not [key for key in store.database.entries if key.startswith(prefix)]


@pytest.mark.parametrize("loss", LOSSES)
@on_simulated_time
async def test_no_producer_id_is_given_again(loss: str) -> None:
    store, objects = memory_stores()
    async with running_engine(store, objects, housekeeping=False) as engine:
        LOSSES[loss](store)
        with pytest.raises(KafkaStorageError, match=loss):
            await StoredProducerIds(store, engine._context.cluster).allocate()


@on_simulated_time
async def test_a_broker_ends_whose_store_was_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cluster_record.CHECK_SECONDS", 0.01)
    store, objects = memory_stores()

    async def gone(_: str) -> None:
        raise StoreGone("the file was deleted: run headwater restore")

    async with running_engine(store, objects, housekeeping=False) as engine:
        monkeypatch.setattr(store, "get", gone)
        with pytest.raises(ConfigurationError, match="run headwater restore"):
            await asyncio.wait_for(engine._cluster.check(), 5)


@pytest.mark.parametrize("loss", LOSSES)
@on_simulated_time
async def test_a_lost_store_is_detected_without_a_change(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that lost its data counts revisions from 0, so old watches get nothing."""
    monkeypatch.setattr("headwater.cluster_record.CHECK_SECONDS", 0.01)
    store, objects = memory_stores()
    async with running_engine(store, objects, housekeeping=False) as engine:
        checking = asyncio.create_task(engine._cluster.check())
        await asyncio.sleep(0.03)
        assert not checking.done()
        LOSSES[loss](store)
        with pytest.raises(ConfigurationError, match=loss):
            await asyncio.wait_for(checking, 5)
