"""How much of a range Oxia's reader reads for its last entries."""

from collections.abc import AsyncIterator, Sequence
from random import Random

import pytest

from headwater.meta.oxia.keyspace import OxiaKeyspace, encode_stored
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from tests.support.simulation.oxia_shard import ShardState


class Counted(OxiaShard):
    """Counts the records that are sent."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.sent = 0

    async def read(self, gets: Sequence[pb.GetRequest]) -> list[pb.GetResponse]:
        self.sent += len(gets)
        return [self._state.get(get) for get in gets]

    async def scan(self, start: str, end: str) -> AsyncIterator[pb.GetResponse]:
        for found in self._state.scan(start, end):
            self.sent += 1
            yield found


def reader_of(keys: Sequence[str], deleted: Sequence[str] = ()) -> tuple[OxiaReader, Counted]:
    layout, state = OxiaKeyspace("p"), ShardState()
    puts = [
        pb.PutRequest(
            key=layout.path(key),
            value=encode_stored(1, None if key in deleted else b"v"),
            expected_version_id=-1,
        )
        for key in keys
    ]
    state.write(pb.WriteRequest(puts=puts), 0)
    shard = Counted(state)
    return OxiaReader(shard, layout), shard


async def test_the_last_entries_of_a_long_index_are_found_without_reading_all_of_it() -> None:
    keys = [f"d/0000/index/00000000000000000007/{number * 10:020d}" for number in range(2_000)]
    reader, shard = reader_of(keys)
    start, end = "d/0000/index/00000000000000000007/", "d/0000/index/000000000000000000070"
    pages = []
    for _ in range(3):
        shard.sent = 0
        page = (await reader.scan(start, end, 32, reverse=True)).entries
        pages += [entry.key for entry in page]
        assert shard.sent < 100
        end = page[-1].key
    assert pages == keys[:-97:-1]


@pytest.mark.parametrize("seed", range(30))
async def test_a_reverse_page_is_the_end_of_the_range_whatever_its_keys(seed: int) -> None:
    rng = Random(seed)
    keys = sorted(
        {
            rng.choice(["a/", "a/b/", "a/b", "b/", ""]) + f"{rng.randrange(3_000):04d}"
            + rng.choice(["", "", "/x", "/7"])
            for _ in range(rng.randrange(1, 120))
        }
    )  # fmt: skip
    deleted = rng.sample(keys, len(keys) // 3)
    reader, _ = reader_of(keys, deleted)
    live = [key for key in keys if key not in deleted]
    for _ in range(20):
        start, end = sorted(rng.choices([*keys, "a/", "a/b/", "a0", "~", "\0"], k=2))
        limit = rng.randrange(1, 12)
        wanted = [key for key in live if start <= key < end][::-1][:limit]
        found = await reader.scan(start, end, limit, reverse=True)
        assert [entry.key for entry in found.entries] == wanted
