"""The cluster's feature level: which brokers may join, and when new formats are written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from headwater.broker.cluster.finalize import Finalized, finalize
from headwater.broker.cluster.membership import Membership, Registration
from headwater.broker.cluster.view import BrokerAddress
from headwater.clock import SystemClock
from headwater.cluster_record import ClusterRecord, ClusterRecordFollower
from headwater.errors import ConfigurationError, UnknownFormat
from headwater.feature_levels import SUPPORTED_LEVELS, Levels
from headwater.log.engine import open_cluster
from headwater.log.formats.metadata_values import Incarnation
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import Writes
from headwater.meta.values import decode, encode
from headwater.objects.memory import MemoryObjects
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import running_broker
from tests.support.log.harness import append, make_batch, read_all, running_engine

OLD = Levels(1, 1)


def cluster_at(level: int) -> MemoryDatabase:
    """A cluster at a feature level."""
    database = MemoryDatabase()
    database.apply(Writes(puts={keys.CLUSTER: encode(ClusterRecord(id="c", level=level))}))
    return database


@asynccontextmanager
async def member(
    database: MemoryDatabase, broker_id: int, levels: Levels = SUPPORTED_LEVELS
) -> AsyncIterator[Membership]:
    async def fence(_incarnation: str) -> None:
        raise AssertionError("no incarnation may be fenced")

    store = MemoryStore(database=database)
    joined = Membership(
        meta=store,
        address=BrokerAddress(broker_id, "127.0.0.1", 9092),
        cluster_id="c",
        leader_epoch=0,
        incarnation=lambda: f"i{broker_id}",
        fence=fence,
        exclusive=False,
        session_seconds=10,
        levels=levels,
    )
    try:
        await joined.join()
        yield joined
    finally:
        await joined.leave()
        await store.close()


def level_of(database: MemoryDatabase) -> int:
    return decode(ClusterRecord, database.entries[keys.CLUSTER].value).level


async def test_a_new_cluster_has_the_highest_level_of_its_first_broker() -> None:
    assert (await open_cluster(MemoryStore(), Random(1))).level == SUPPORTED_LEVELS.highest


async def test_a_release_that_does_not_support_the_clusters_level_does_not_start() -> None:
    store = MemoryStore(database=cluster_at(SUPPORTED_LEVELS.highest + 1))
    with pytest.raises(UnknownFormat, match=r"level 3, .* supports 1 to 2: run a newer"):
        await open_cluster(store, Random(1))


async def test_an_older_release_cannot_join_a_cluster_that_was_finalized() -> None:
    database = cluster_at(2)
    with pytest.raises(
        UnknownFormat, match="has feature level 2, and this release supports 1: run"
    ):
        async with member(database, 1, OLD):
            pass


async def test_the_level_is_raised_if_every_broker_supports_it() -> None:
    database = cluster_at(1)
    store = MemoryStore(database=database)
    async with member(database, 1):
        async with member(database, 2, OLD):
            with pytest.raises(
                ConfigurationError,
                match="broker 2 supports the feature levels 1, not 2: upgrade it",
            ):
                await finalize(store, 2)
            assert await finalize(store) == Finalized(1, 1)
        assert await finalize(store, dry_run=True) == Finalized(1, 2)
        assert level_of(database) == 1
        assert await finalize(store) == Finalized(1, 2)
        assert level_of(database) == 2
        with pytest.raises(ConfigurationError, match="cannot go back to 1"):
            await finalize(store, 1)


async def test_a_broker_that_registers_while_the_level_is_raised_is_checked() -> None:
    database = cluster_at(1)
    store = MemoryStore(database=database)
    async with member(database, 1):
        raising = asyncio.create_task(finalize(store, 2))
        await asyncio.sleep(0)  # it reads the counter of registrations
        try:
            async with member(database, 2, OLD):
                with pytest.raises(ConfigurationError, match="broker 2 supports"):
                    await raising
        except UnknownFormat:
            assert (await raising).after == 2
        both = database.keys(keys.BROKERS, keys.BROKERS + "~")
        assert not (level_of(database) == 2 and len(both) > 1)


async def test_every_registration_has_a_later_epoch() -> None:
    database = cluster_at(2)
    epochs = []
    for broker_id in (1, 2, 1):
        async with member(database, broker_id) as joined:
            stored = database.entries[keys.broker(broker_id)].value
            epochs.append(decode(Registration, stored).epoch)
            assert joined.joined_epoch == epochs[-1]
    assert epochs == sorted(set(epochs))


async def test_a_new_format_is_written_only_after_it_was_finalized() -> None:
    database = cluster_at(1)
    store, objects = MemoryStore(database=database), MemoryObjects(clock=SystemClock())
    settings = LogSettings(inline_bytes=0)

    def noted() -> str:
        name = keys.incarnation(0, engine.incarnation)
        return decode(Incarnation, database.entries[name].value).section[0]

    async with running_engine(store, objects, settings=settings) as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"old")])
        assert not noted()
    async with running_engine(store, objects, settings=settings, rng=Random(5)) as engine:
        await append(engine, "t", [make_batch(b"upgraded, not finalized")])
        assert not noted()
        await finalize(store)
        while engine.level == 1:
            await asyncio.sleep(0)
        await append(engine, "t", [make_batch(b"new")])
        assert noted().startswith("wal/")
        found = await read_all(engine, "t")
    assert [value for _, value in found] == [b"old", b"upgraded, not finalized", b"new"]


async def test_a_broker_stops_when_its_cluster_is_restored() -> None:
    database = cluster_at(2)
    store = MemoryStore(database=database)
    follower = ClusterRecordFollower(store, await open_cluster(store, Random(1)))
    following = asyncio.create_task(follower.run())
    await asyncio.sleep(0.01)
    database.apply(Writes(puts={keys.CLUSTER: encode(ClusterRecord(id="c", level=2, epoch=1))}))
    with pytest.raises(ConfigurationError, match="was restored and has restore epoch 1"):
        await following


async def test_kafkas_tools_read_the_level_and_cannot_set_an_illegal_one() -> None:
    async with running_broker() as broker:
        told = await broker.call(
            ApiKey.API_VERSIONS, 4, client_software_name="x", client_software_version="1"
        )
        assert {f.name: f.max_version_level for f in told.finalized_features} == {
            "group.version": 1,
            "headwater.version": SUPPORTED_LEVELS.highest,
        }

        async def update(name: str, level: int, version: int = 2) -> int:
            change: dict[str, object] = {"feature": name, "max_version_level": level}
            if version == 0:
                change["allow_downgrade"] = False
            reply = await broker.call(ApiKey.UPDATE_FEATURES, version, feature_updates=[change])
            return int(reply.error_code)

        assert await update("headwater.version", SUPPORTED_LEVELS.highest) == 0
        assert await update("group.version", 1, version=1) == 0
        assert await update("headwater.version", 9) == 95
        assert await update("group.version", 2) == 95
        assert await update("metadata.version", 20, version=0) == 95
