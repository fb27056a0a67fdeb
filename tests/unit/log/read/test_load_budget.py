"""What is read for consumers at once is bounded in bytes, over all of them."""

import asyncio
from collections.abc import Sequence

from headwater.log.formats.metadata_values import SEGMENT, IndexEntry
from headwater.log.read.load_budget import LoadBudget
from headwater.log.read.piece_loader import PieceLoader
from headwater.log.read.pieces import Piece, PieceCache
from headwater.log.read.sources import Extent
from headwater.telemetry.metrics import Counter
from tests.support.simulation.loop import on_simulated_time

LIMIT = 1_000


class SlowSource:
    """Answers when the test allows it, and counts the bytes in flight."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.under_way = self.most = 0

    def is_large(self, entry: IndexEntry) -> bool:
        return False

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        raise NotImplementedError

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        self.under_way += entry.length
        self.most = max(self.most, self.under_way)
        await self.answers.wait()
        await asyncio.sleep(0)
        self.under_way -= entry.length
        return Piece(entry.start, entry.end, memoryview(b"x"), [0], [entry.end])


def entry_of(length: int) -> IndexEntry:
    return IndexEntry(
        start=0, end=1, kind=SEGMENT, length=length, size=length, max_timestamp=0, created_ms=0
    )


@on_simulated_time
async def test_cold_reads_of_many_consumers_stay_within_the_bound() -> None:
    source = SlowSource()
    loader = PieceLoader(
        chunks=None,  # type: ignore[arg-type]  # no entry is a chunk
        files={SEGMENT: source},
        cache=PieceCache(1, Counter(), Counter()),
        loading_bytes=LIMIT,
    )
    sizes = [300, 300, 300, 300, 5_000, *[400] * 20]
    reads = [
        asyncio.ensure_future(loader.load(stream, entry_of(size), 0))
        for stream, size in enumerate(sizes)
    ]
    await asyncio.sleep(0.01)
    assert source.most == 900
    source.answers.set()
    await asyncio.gather(*reads)
    assert source.most == 5_000  # alone
    assert source.under_way == 0


@on_simulated_time
async def test_a_read_that_is_cancelled_makes_room_for_those_behind_it() -> None:
    budget = LoadBudget(LIMIT)
    order: list[int] = []

    async def read(size: int, ends: asyncio.Event) -> None:
        async with budget.admitted(size):
            order.append(size)
            await ends.wait()

    first, others = asyncio.Event(), asyncio.Event()
    reads = [
        asyncio.ensure_future(read(size, event))
        for size, event in [(900, first), (901, others), (99, others), (100, others)]
    ]
    await asyncio.sleep(0)
    assert order == [900]
    reads[1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == [900, 99]
    first.set()
    await asyncio.sleep(0)
    reads[3].cancel()
    others.set()
    await asyncio.gather(*reads, return_exceptions=True)
    assert budget.loading == 0
