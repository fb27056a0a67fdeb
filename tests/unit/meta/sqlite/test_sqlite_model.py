"""Stores on one file see and write what one store in memory does."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.clock import SystemClock
from headwater.meta.memory import MemoryStore
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Entry, MetadataStore, Values, Writes
from tests.unit.meta.test_model import Transact, transacts


async def seen(store: MetadataStore, operation: Transact) -> tuple[int, dict[str, Entry | None]]:
    def decide(values: Values) -> tuple[Writes, dict[str, Entry | None]]:
        writes = Writes(
            puts=dict(operation.puts),
            deletes=list(operation.deletes),
            range_deletes=list(operation.ranges),
        )
        return writes, dict(values)

    committed = await store.transact(0, operation.read, decide)
    return committed.revision, committed.result


plain_puts = transacts.map(lambda each: Transact(each.read, each.puts, [], []))


@settings(max_examples=60, deadline=None)
@given(
    operations=st.lists(
        st.tuples(st.sampled_from([0, 0, 0, 1]), plain_puts | plain_puts | transacts), max_size=30
    )
)
def test_two_processes_see_and_write_what_one_store_in_memory_does(
    operations: list[tuple[int, Transact]],
) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "meta.db"
            model = MemoryStore()
            stores = [await SqliteStore.open(path, SystemClock()) for _ in range(2)]
            try:
                for number, operation in operations:
                    assert await seen(stores[number], operation) == await seen(model, operation)
            finally:
                for each in stores:
                    await each.close()

    asyncio.run(main())
