"""What reading a whole store in pages costs an etcd server."""

from contextlib import aclosing
from random import Random

import pytest

from headwater.meta.etcd import EtcdStore
from headwater.meta.etcd import store as etcd
from headwater.meta.etcd.address import parse_etcd_address
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.store import Writes
from tests.support.simulation.etcd_members import EtcdState, SimulatedMembers
from tests.support.simulation.network import Network, Weather

KEYS = 3_000
PAGE = 25
CALM = Weather(delay=0, lost_request=0, lost_reply=0, late=0, latest=0)


class CountingState(EtcdState):
    """Counts the keys that etcd looks at: all of a range, whatever the limit is."""

    visited = 0

    def range(self, wanted: pb.RangeRequest) -> pb.RangeResponse:
        self.visited += len(self._in_range(wanted.key, wanted.range_end))
        return super().range(wanted)


async def test_pages_of_a_large_store_do_not_each_count_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(etcd, "KEYS_AT_ONCE", KEYS // 3)
    state = CountingState()
    members = SimulatedMembers(state, Network(Random(1), CALM))
    store = EtcdStore(parse_etcd_address("etcd://127.0.0.1/cluster"), Random(1), members)
    names = [f"k{number:05d}" for number in range(KEYS)]
    for start in range(0, KEYS, 100):
        writes = Writes(puts=dict.fromkeys(names[start : start + 100], b"v"))
        await store.transact(0, [], lambda _, writes=writes: (writes, None))  # type: ignore[misc]
    state.visited = 0
    found = []
    async with aclosing(store.scan_pages("k", "l", size=PAGE)) as pages:
        async for page in pages:
            assert 0 < len(page.entries) <= PAGE
            found += [entry.key for entry in page.entries]
    await store.close()
    assert found == names
    assert state.visited <= 3 * KEYS


async def test_an_empty_range_has_one_empty_page() -> None:
    members = SimulatedMembers(EtcdState(), Network(Random(1), CALM))
    store = EtcdStore(parse_etcd_address("etcd://127.0.0.1/cluster"), Random(1), members)
    async with aclosing(store.scan_pages("k", "l", size=PAGE)) as pages:
        assert [page.entries async for page in pages] == [[]]
    await store.close()
