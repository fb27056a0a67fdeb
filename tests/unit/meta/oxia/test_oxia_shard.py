"""A range of Oxia that takes long to read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from headwater.errors import StoreUnavailable
from headwater.meta.oxia import shard as shards
from headwater.meta.oxia.address import parse_oxia_address
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard

LIMIT = 0.2


class SlowServer:
    """Answers a range scan record by record, with a pause before each; stands for a ``Peer``."""

    name = "slow"

    def __init__(self, pauses: list[float]) -> None:
        self._pauses = pauses
        self.cancelled = False

    def answers(self, _method: Any) -> Any:
        return lambda _request: self

    async def read(self) -> Any:
        if not self._pauses:
            return grpc.aio.EOF
        await asyncio.sleep(self._pauses.pop(0))
        return pb.RangeScanResponse(records=[pb.GetResponse(key="k", value=b"v")])

    def cancel(self) -> None:
        self.cancelled = True


class ShardOf(OxiaShard):
    def __init__(self, server: Any) -> None:
        super().__init__(parse_oxia_address("oxia://127.0.0.1:6648/prod"))
        self._leader = server.name
        self._peers = {server.name: server}

    async def keys_found(self) -> AsyncIterator[str]:
        async for record in self.scan("a", "z"):
            yield record.key


async def test_a_range_may_take_longer_than_each_of_its_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "ANSWER_SECONDS", LIMIT)
    server = SlowServer([LIMIT / 4] * 12)
    assert [key async for key in ShardOf(server).keys_found()] == ["k"] * 12
    assert server.cancelled


async def test_a_server_that_falls_silent_within_a_range_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "ANSWER_SECONDS", LIMIT)
    server = SlowServer([0, 60])
    found = ShardOf(server).keys_found()
    assert await anext(found) == "k"
    with pytest.raises(StoreUnavailable, match="range"):
        await anext(found)
    assert server.cancelled
