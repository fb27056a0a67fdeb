"""Whole brokers in this process, put together as ``headwater serve`` does it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headwater.app.assembly import BrokerProcess
from headwater.config import load
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import WireClient

PARTITIONS = 4
HEARTBEAT_MS = 300


@asynccontextmanager
async def serving(
    directory: Path, *, port: int = 0, broker_id: int = 1, **settings: Any
) -> AsyncIterator[str]:
    """A broker on a directory, from start to a clean stop; gives its address."""
    given = {
        "data": str(directory),
        "broker.id": broker_id,
        "broker.listen": f"127.0.0.1:{port}",
        "broker.num_partitions": PARTITIONS,
        "groups.initial_rebalance_delay_ms": 0,
        "groups.consumer_heartbeat_interval_ms": HEARTBEAT_MS,
        **settings,
    }
    stop = asyncio.Event()
    async with BrokerProcess(load(None, {}, given)) as broker:
        running = asyncio.ensure_future(broker.run(stop))
        try:
            yield str(broker.address)
        finally:
            stop.set()
            await running


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def call(address: str, api: int, version: int, **fields: Any) -> Any:
    """One request on a new connection."""
    client = WireClient(*await asyncio.open_connection("127.0.0.1", port_of(address)))
    try:
        return await client.call(api, version, **fields)
    finally:
        await client.close()


async def create_topic(
    address: str,
    name: str,
    partitions: int = PARTITIONS,
    configs: Mapping[str, str] | None = None,
) -> Any:
    """Its id."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    reply = await call(
        address, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000, validate_only=False
    )
    assert reply.topics[0].error_code == 0
    return reply.topics[0].topic_id
