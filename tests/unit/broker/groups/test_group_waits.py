"""Members that wait for others, on a whole broker."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import WireClient
from tests.support.broker.serving import call, port_of, serving

LONG = {"groups.initial_rebalance_delay_ms": 60_000}
FIRST_JOIN = {
    "group_id": "g",
    "session_timeout": 30_000,
    "rebalance_timeout": 60_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b""}],
}
"""Of a version that needs no member id beforehand: it waits for as long as the group does."""


async def connect(address: str) -> WireClient:
    return WireClient(*await asyncio.open_connection("127.0.0.1", port_of(address)))


async def until_gathering(address: str, group: str) -> None:
    fields: dict[str, Any] = {"states_filter": ["PreparingRebalance"], "types_filter": []}
    while group not in [
        one.group_id for one in (await call(address, ApiKey.LIST_GROUPS, 5, **fields)).groups
    ]:
        await asyncio.sleep(0.01)


async def test_a_stopping_broker_answers_waiting_members_with_not_coordinator(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as broker:
        address = await broker.enter_async_context(serving(tmp_path, **LONG))
        client = await connect(address)
        await client.send(ApiKey.JOIN_GROUP, 3, **FIRST_JOIN)
        await until_gathering(address, "g")
        await broker.aclose()
    assert (await client.receive(ApiKey.JOIN_GROUP, 3))[1].error_code == Code.NOT_COORDINATOR
    await client.close()


async def test_one_groups_wait_does_not_delay_other_groups(tmp_path: Path) -> None:
    async with serving(tmp_path, **LONG) as address:
        waiting = await connect(address)
        await waiting.send(ApiKey.JOIN_GROUP, 3, **FIRST_JOIN)
        await until_gathering(address, "g")
        stranger = {"group_id": "h", "generation_id": 1, "member_id": "m"}
        assert (
            await call(address, ApiKey.HEARTBEAT, 0, **stranger)
        ).error_code == Code.UNKNOWN_MEMBER_ID
        assert (
            await call(address, ApiKey.HEARTBEAT, 0, **stranger | {"group_id": "g"})
        ).error_code == Code.UNKNOWN_MEMBER_ID
        await waiting.close()
