"""When a broker loads what reads Parquet files."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headwater.errors import KafkaStorageError
from headwater.log.read.parquet.warm_up import warm_up_for_tables
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Values, Writes
from headwater.meta.transactions import transact


async def put(store: MemoryStore, key: str) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(key, b"")
        return writes, None

    await transact(store, [], decide)


@asynccontextmanager
async def warming(store: MemoryStore) -> AsyncIterator[asyncio.Event]:
    """An event that is set when it has warmed up."""
    warm = asyncio.Event()

    async def warm_up() -> None:
        warm.set()

    task = asyncio.create_task(warm_up_for_tables(store, warm_up))
    yield warm
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_broker_whose_log_has_files_of_tables_warms_up_at_once() -> None:
    store = MemoryStore()
    await put(store, keys.object_record(0, "tables/1/data/0/file.parquet", 0))
    async with warming(store) as warm:
        await warm.wait()


async def test_a_broker_warms_up_when_the_first_job_begins_and_not_before() -> None:
    store = MemoryStore()
    await put(store, keys.object_record(0, "wal/1.wo", 0))
    async with warming(store) as warm:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not warm.is_set()
        await put(store, keys.job(0, 7))
        await warm.wait()


async def test_a_broker_that_cannot_read_files_goes_on() -> None:
    store = MemoryStore()
    await put(store, keys.job(0, 7))
    await put(store, keys.object_record(0, "tables/1/data/0/file.parquet", 0))

    async def warm_up() -> None:
        raise KafkaStorageError("this broker lacks what reads Parquet files")

    await warm_up_for_tables(store, warm_up)
