"""Very many connections that send little or nothing."""

import asyncio
import resource
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import WireClient, request_frame
from tests.system.hostile.harness import ANSWER_LIMIT, Target

IDLE = 2_000
IDLE_BYTES = 8 * 1024
"""What an idle connection may cost the broker."""
SILENT = 200


@asynccontextmanager
async def connections(broker: Target, count: int) -> AsyncIterator[list[WireClient]]:
    clients: list[WireClient] = []
    try:
        for _ in range(count):
            clients.append(await broker.connect())
        yield clients
    finally:
        for client in clients:
            client.writer.transport.abort()


def healthy(broker: Target) -> bool:
    url = f"http://127.0.0.1:{broker.metrics_port}/healthz"
    with urllib.request.urlopen(url, timeout=ANSWER_LIMIT) as answer:
        return bool(answer.status == 200)


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def settled(broker: Target) -> None:
    """Wait until the broker has finished its start."""
    async with asyncio.timeout(30):
        before = 0
        while abs(broker.start_of_growth() - before) > 2**20:
            before = broker.start_of_growth()
            await asyncio.sleep(3)


async def test_an_idle_connection_costs_a_few_kilobytes(broker: Target) -> None:
    async with connections(broker, 50) as some:
        await asyncio.gather(*(client.call(ApiKey.API_VERSIONS, 0) for client in some))
    await settled(broker)
    before = broker.start_of_growth()
    async with broker.watched(growth_limit=IDLE * IDLE_BYTES), connections(broker, IDLE) as idle:
        for client in idle:
            assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert (broker.peak_memory() - before) / IDLE <= IDLE_BYTES


async def test_a_broker_without_file_descriptors_serves_connected_clients(
    broker: Target,
) -> None:
    pid = broker.server.pid
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    async with connections(broker, 50) as some:
        assert (await some[-1].call(ApiKey.API_VERSIONS, 0)).error_code == 0
        open_files = descriptors(pid)
        reported = broker.log.count("Cannot accept more connections")
        async with broker.watched():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_files + 5, limits[1]))
            try:
                async with connections(broker, 100):
                    for client in some:
                        assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
                    with pytest.raises(OSError):  # noqa: PT011 - of the kind of urllib
                        await asyncio.to_thread(healthy, broker)
                    await asyncio.sleep(2.5)
                    assert (await some[0].call(ApiKey.API_VERSIONS, 0)).error_code == 0
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        assert (await broker.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        assert await asyncio.to_thread(healthy, broker)
    assert broker.log.count("Cannot accept more connections") == reported + 1


async def test_silent_sockets_do_not_block_the_health_probe(broker: Target) -> None:
    await broker.call(ApiKey.API_VERSIONS, 0)  # it has begun to serve
    silent = []
    try:
        for _ in range(SILENT):
            opened = await asyncio.open_connection("127.0.0.1", broker.metrics_port)
            silent.append(opened[1])
        assert await asyncio.to_thread(healthy, broker)
    finally:
        for writer in silent:
            writer.transport.abort()


async def test_thousands_of_small_requests_do_not_delay_other_clients(broker: Target) -> None:
    requests = 5_000
    asked = request_frame(ApiKey.API_VERSIONS, 0, 1) * requests
    size = len(await ask(broker, asked[: len(asked) // requests], 1))
    async with broker.watched():
        await asyncio.gather(*(ask(broker, asked, requests * size) for _ in range(4)))


async def ask(broker: Target, asked: bytes, answered: int) -> bytes:
    """Send all of it, and read this many bytes of replies."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    try:
        writer.write(asked)
        if answered == 1:
            head = await reader.readexactly(4)
            return head + await reader.readexactly(int.from_bytes(head))
        left = answered
        while left:
            left -= len(await reader.read(min(left, 2**20)))
        return b""
    finally:
        writer.transport.abort()
