from random import Random

import pytest

from headwater.errors import StoreUnavailable, UnknownOutcome
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.meta.store import Limits, Writes
from tests.support.meta.conformance import put, puts
from tests.support.meta.faulty import FaultyStore, MetadataFaults


async def test_limits_of_another_backend_are_enforced_before_anything_is_written() -> None:
    store = MemoryStore(Limits(operations=2, value_bytes=10))
    with pytest.raises(ValueError, match="reads 3 keys; this store accepts 2"):
        await store.transact(0, ["a", "b", "c"], lambda values: (Writes(), None))
    with pytest.raises(ValueError, match="has 3 writes; this store accepts 2"):
        await store.transact(0, [], puts({"a": b"", "b": b"", "c": b""}))
    with pytest.raises(ValueError, match="the value of a has 11 bytes"):
        await put(store, a=bytes(11))
    assert (await store.scan("a", "z")).entries == []


async def test_closing_one_store_keeps_the_database_open_for_the_others() -> None:
    database = MemoryDatabase()
    one, other = MemoryStore(database=database), MemoryStore(database=database)
    await put(one, a=b"1")
    await one.close()
    with pytest.raises(StoreUnavailable):
        await one.get("a")
    assert await other.get("a") is not None


async def test_a_lost_answer_was_committed_and_a_lost_request_was_not() -> None:
    faults = MetadataFaults(lost_answer=1.0)
    store = FaultyStore(MemoryStore(), Random(0), faults)
    with pytest.raises(UnknownOutcome):
        await put(store, landed=b"")
    faults.lost_answer, faults.lost_request = 0.0, 1.0
    with pytest.raises(UnknownOutcome):
        await put(store, missed=b"")
    assert [entry.key for entry in (await store.scan("a", "z")).entries] == ["landed"]


async def test_an_unavailable_store_writes_nothing() -> None:
    faults = MetadataFaults(unavailable=1.0)
    store = FaultyStore(MemoryStore(), Random(0), faults)
    with pytest.raises(StoreUnavailable):
        await put(store, a=b"")
    faults.unavailable = 0.0
    assert await store.get("a") is None


async def test_the_same_seed_gives_the_same_faults() -> None:
    async def outcomes() -> list[str]:
        store = FaultyStore(
            MemoryStore(), Random(5), MetadataFaults(lost_answer=0.3, unavailable=0.3)
        )
        seen = []
        for _ in range(50):
            try:
                await put(store, a=b"")
                seen.append("done")
            except (UnknownOutcome, StoreUnavailable) as error:
                seen.append(type(error).__name__)
        return seen

    first = await outcomes()
    assert first == await outcomes()
    assert set(first) == {"done", "UnknownOutcome", "StoreUnavailable"}
