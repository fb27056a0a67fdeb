"""A cluster has one object store, which is known by its id and not by its place."""

import asyncio
import json
from random import Random

import pytest

from headwater.cluster_record import ClusterRecord
from headwater.errors import ConfigurationError
from headwater.log.engine import open_cluster
from headwater.log.restore.claim import OWNER, STORE_ID, check_claim, claim_objects, store_id
from headwater.meta import keys
from headwater.meta.store import Writes
from headwater.meta.values import decode, encode
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch
from tests.support.log.restoring import RestorePlace
from tests.unit.log.restore.test_rival_clusters import YieldingObjects


async def record_of(place: RestorePlace) -> ClusterRecord:
    stored = await place.meta.get(keys.CLUSTER)
    assert stored is not None
    return decode(ClusterRecord, stored.value)


def forget_store_id(place: RestorePlace) -> None:
    """Make the cluster one of a release that gave its object store no id."""
    entries = place.meta.database.entries
    record = decode(ClusterRecord, entries[keys.CLUSTER].value)
    record.objects = record.objects_url = ""
    place.meta.database.apply(Writes(puts={keys.CLUSTER: encode(record)}))


async def legacy_mark(place: RestorePlace) -> None:
    await place.objects.delete(OWNER)
    mark = json.dumps({"cluster": (await record_of(place)).id}).encode()
    await place.objects.put(OWNER, [mark])


async def test_another_object_store_is_refused_with_both_urls() -> None:
    place = RestorePlace()
    await place.claim()
    other = MemoryObjects(clock=place.clock)
    record = await open_cluster(place.meta, Random(2))
    with pytest.raises(ConfigurationError) as refused:
        await claim_objects(place.meta, other, record, "memory://second")
    assert "memory://first" in str(refused.value)
    assert "memory://second" in str(refused.value)
    assert [info.key async for info in other.list("")] == []
    with pytest.raises(ConfigurationError, match="memory://first"):
        await check_claim(other, record)


async def test_a_store_that_moved_is_known_by_its_id() -> None:
    place = RestorePlace()
    before = await place.claim()
    moved = MemoryObjects(clock=place.clock)
    async for info in place.objects.list(""):
        await moved.put(info.key, [await place.objects.get(info.key)])
    after = await claim_objects(place.meta, moved, before, "memory://moved")
    assert after.objects == before.objects == await store_id(moved)
    assert (await record_of(place)).objects_url == "memory://moved"


async def test_of_two_stores_that_are_claimed_at_once_one_is_refused() -> None:
    place = RestorePlace()
    stores = [YieldingObjects(clock=place.clock) for _ in range(2)]
    record = await open_cluster(place.meta, Random(1))
    done = await asyncio.gather(
        *(
            claim_objects(place.meta, store, record, f"memory://{number}")
            for number, store in enumerate(stores)
        ),
        return_exceptions=True,
    )
    (refused,) = [each for each in done if isinstance(each, BaseException)]
    assert isinstance(refused, ConfigurationError)
    (winner,) = [number for number, each in enumerate(done) if each is not refused]
    assert (await record_of(place)).objects == await store_id(stores[winner])


async def test_brokers_that_start_at_once_claim_the_same_store() -> None:
    place = RestorePlace()
    objects = YieldingObjects(clock=place.clock)
    record = await open_cluster(place.meta, Random(1))
    done = await asyncio.gather(
        *(claim_objects(place.meta, objects, record, "memory:") for _ in range(3))
    )
    assert {each.objects for each in done} == {await store_id(objects)}


async def test_a_broker_that_died_between_the_marks_and_the_record_is_followed_up() -> None:
    place = RestorePlace()
    marked = (await place.claim()).objects
    forget_store_id(place)
    assert (await place.claim()).objects == marked


async def test_a_claim_without_an_id_is_completed_where_the_objects_are() -> None:
    place = RestorePlace(whole=True)
    await place.claim()
    async with place.engine() as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x")])
    forget_store_id(place)
    await legacy_mark(place)
    stranger = MemoryObjects(clock=place.clock)
    record = await open_cluster(place.meta, Random(2))
    with pytest.raises(ConfigurationError, match=r"has an object wal/.* and memory://second does"):
        await claim_objects(place.meta, stranger, record, "memory://second")
    completed = await place.claim()
    assert completed.objects == await store_id(place.objects)
    assert json.loads(await place.objects.get(STORE_ID)) == {"objects": completed.objects}
    assert await place.claim() == completed


async def test_a_restored_cluster_keeps_its_object_store() -> None:
    place = RestorePlace()
    claimed = await place.claim()
    async with place.engine():
        await place.snapshot()
    place.lose_metadata()
    await place.restore()
    assert (await record_of(place)).objects == claimed.objects
    with pytest.raises(ConfigurationError, match="memory://first"):
        await check_claim(MemoryObjects(clock=place.clock), await record_of(place))
    await place.claim()


async def test_a_cluster_restored_from_a_copy_takes_the_copys_id() -> None:
    """A copy of the data without the marks is another store."""
    place = RestorePlace()
    await place.claim()
    async with place.engine():
        await place.snapshot()
    for key in [info.key async for info in place.objects.list("owner/")]:
        await place.objects.delete(key)
    place.lose_metadata()
    await place.restore()
    completed = await place.claim()
    assert completed.objects == await store_id(place.objects)
