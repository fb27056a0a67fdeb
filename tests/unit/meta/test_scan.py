import pytest

from headwater.meta.memory import MemoryStore
from headwater.meta.scan import scan_all
from headwater.meta.store import Scan, Writes


class CountedScans(MemoryStore):
    scans = 0

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        self.scans += 1
        return await super().scan(start, end, limit=limit, reverse=reverse)


def filled(count: int) -> CountedScans:
    store = CountedScans()
    names = ["a", *(f"b/{number}" for number in range(count)), "c"]
    store.database.apply(Writes(puts=dict.fromkeys(names, b"")))
    return store


@pytest.mark.parametrize(("count", "scans"), [(0, 1), (1, 1), (2, 1), (3, 2), (5, 2), (6, 3)])
async def test_every_entry_below_a_prefix_is_returned_once_in_order(count: int, scans: int) -> None:
    store = filled(count)
    found = [entry.key async for entry in scan_all(store, "b/", page=3)]
    assert found == [f"b/{number}" for number in range(count)]
    assert store.scans == scans


async def test_a_range_ends_before_its_end() -> None:
    found = [entry.key async for entry in scan_all(filled(5), "b/1", "b/4", page=2)]
    assert found == ["b/1", "b/2", "b/3"]


async def test_a_page_is_read_only_when_it_is_needed() -> None:
    store = filled(9)
    async for entry in scan_all(store, "b/", page=3):
        if entry.key == "b/3":
            break
    assert store.scans == 2
