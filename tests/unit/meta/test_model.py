"""Random operations on a store give what they give on a plain dict."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.clock import SystemClock
from headwater.meta.memory import MemoryStore
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import KeyChange, MetadataStore, Values, Writes

keys = st.text(alphabet="ab/", min_size=1, max_size=3)
values = st.binary(max_size=8) | st.just(bytes(40_000))


@dataclass(frozen=True, slots=True)
class Transact:
    read: list[str]
    puts: dict[str, bytes]
    deletes: list[str]
    ranges: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Range:
    start: str
    end: str
    limit: int | None
    reverse: bool


transacts = st.builds(
    Transact,
    read=st.lists(keys, max_size=4, unique=True),
    puts=st.dictionaries(keys, values, max_size=6),
    deletes=st.lists(keys, max_size=3),
    ranges=st.lists(st.tuples(keys, keys), max_size=2),
)
ranges = st.builds(
    Range, start=keys, end=keys, limit=st.none() | st.integers(1, 3), reverse=st.booleans()
)


async def memory(directory: Path) -> MetadataStore:
    return MemoryStore()


async def sqlite(directory: Path) -> MetadataStore:
    return await SqliteStore.open(directory / "meta.db", SystemClock())


class StoreModel:
    """The store as a dict."""

    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}

    def apply(self, operation: Transact) -> None:
        for key in list(self.entries):
            if key in operation.deletes or any(a <= key < b for a, b in operation.ranges):
                del self.entries[key]
        self.entries.update(operation.puts)

    def select(self, wanted: Range) -> list[tuple[str, bytes]]:
        found = sorted(
            (item for item in self.entries.items() if wanted.start <= item[0] < wanted.end),
            reverse=wanted.reverse,
        )
        return found[: wanted.limit]


async def transact(store: MetadataStore, model: StoreModel, operation: Transact) -> int:
    def decide(seen: Values) -> tuple[Writes, dict[str, bytes | None]]:
        writes = Writes(
            puts=dict(operation.puts),
            deletes=list(operation.deletes),
            range_deletes=list(operation.ranges),
        )
        return writes, {key: entry.value if entry else None for key, entry in seen.items()}

    committed = await store.transact(0, operation.read, decide)
    assert committed.result == {key: model.entries.get(key) for key in operation.read}
    model.apply(operation)
    return committed.revision


async def check(store: MetadataStore, operations: list[Transact | Range]) -> None:
    model = StoreModel()
    start = revision = (await store.scan("a", "b")).revision
    for operation in operations:
        if isinstance(operation, Transact):
            revision = await transact(store, model, operation)
        else:
            scan = await store.scan(
                operation.start, operation.end, limit=operation.limit, reverse=operation.reverse
            )
            assert [(e.key, e.value) for e in scan.entries] == model.select(operation)
            assert scan.revision == revision
    # Replaying what a watch was given leads to the same state.
    replayed: dict[str, bytes] = {}
    async with asyncio.timeout(20):
        for change in await replay(store, start):
            if change.value is None:
                replayed.pop(change.key, None)
            else:
                replayed[change.key] = change.value
    assert replayed == model.entries


async def replay(store: MetadataStore, start: int) -> list[KeyChange]:
    """Every change since then, read up to one more that is made here to mark the end."""
    changes: list[KeyChange] = []
    await store.transact(0, [], lambda seen: (Writes(puts={"end": b""}), None))
    async for some in store.watch("", start):
        changes.extend(some)
        if changes[-1].key == "end":
            break
    return changes[:-1]


@pytest.mark.parametrize("backend", [memory, sqlite])
@settings(max_examples=40, deadline=None)
@given(operations=st.lists(transacts | ranges, max_size=12))
def test_a_store_behaves_as_a_dict(
    backend: Callable[[Path], Awaitable[MetadataStore]], operations: list[Transact | Range]
) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            store = await backend(Path(directory))
            try:
                await check(store, operations)
            finally:
                await store.close()

    asyncio.run(main())
