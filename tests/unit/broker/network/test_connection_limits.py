"""The limits of connections, and how long one may be idle."""

import asyncio
import errno
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.configs.dynamic_configs import check_broker_configs
from headwater.broker.configs.entries import BrokerLayers
from headwater.broker.network import acceptor, server
from headwater.broker.network.acceptor import Acceptor
from headwater.broker.network.connection_limits import (
    RESERVED_DESCRIPTORS,
    AddressCounts,
    ConnectionLimits,
    connection_limits,
)
from headwater.broker.network.server import listen
from headwater.broker.settings import BrokerSettings
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import RunningBroker, WireClient, request_frame, running_broker
from tests.support.waiting import eventually
from tests.unit.broker.configs.test_dynamic_configs import BROKER, SET, alter, describe

SOMAXCONN = int(Path("/proc/sys/net/core/somaxconn").read_text())
TCP_INFO_BACKLOG = slice(28, 32)
"""A listening socket's backlog in ``struct tcp_info``."""


async def closed(client: WireClient) -> bool:
    async with asyncio.timeout(5):
        return await client.is_closed()


async def limit(broker: RunningBroker, name: str, value: int) -> None:
    assert await alter(broker, (BROKER, ""), (name, SET, str(value))) == (0, None)


def test_dynamic_limits_override_those_set_at_start() -> None:
    settings = BrokerSettings(max_connections=50, max_connections_per_ip=5)
    layers = BrokerLayers({"max.connections": "10"}, {"max.connections": "20"})
    assert connection_limits(settings, layers, 10_000) == ConnectionLimits(10, 5)
    layers = BrokerLayers({}, {"max.connections.per.ip": "2"})
    assert connection_limits(settings, layers, 10_000) == ConnectionLimits(50, 2)


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
def test_a_limit_is_read_as_it_was_checked(name: str) -> None:
    """Kafka trims control characters, which Python's ``int`` refuses: no client could connect."""
    value = "\x0110\x02"
    check_broker_configs({name: value})
    limits = connection_limits(BrokerSettings(), BrokerLayers({}, {name: value}), 10_000)
    assert 10 in (limits.total, limits.per_address)


def test_connections_leave_file_descriptors_to_the_stores() -> None:
    limits = connection_limits(BrokerSettings(), BrokerLayers({}, {}), 10_000)
    assert limits.total == 10_000 - RESERVED_DESCRIPTORS


def test_addresses_are_counted_separately_and_forgotten() -> None:
    counts = AddressCounts()
    assert counts.add("a", 1)
    assert not counts.add("a", 1)
    assert counts.add("b", 1)
    assert not counts.add("c", 0)
    counts.remove("a")
    assert counts.add("a", 1)
    for name in "ab":
        counts.remove(name)
    assert not counts._counts


async def test_one_address_gets_no_more_than_its_limit_of_connections(
    broker: RunningBroker,
) -> None:
    await limit(broker, "max.connections.per.ip", 2)
    first, second, third = [await broker.connect() for _ in range(3)]
    assert (await first.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert (await second.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert await closed(third)
    await third.close()
    await first.close()
    await eventually(lambda: broker.server.connections == 1)
    fourth = await broker.connect()
    assert (await fourth.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    await fourth.close()
    await second.close()


async def test_a_connection_above_the_limit_waits_until_another_closes(
    broker: RunningBroker,
) -> None:
    await limit(broker, "max.connections", 1)
    first = await broker.connect()
    assert (await first.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    second = await broker.connect()
    answer = asyncio.create_task(second.call(ApiKey.API_VERSIONS, 0))
    await asyncio.sleep(0.2)
    assert not answer.done()
    await first.close()
    async with asyncio.timeout(5):
        assert (await answer).error_code == 0
    await second.close()


async def test_a_connection_above_the_limit_replaces_an_idle_one(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "EVICTABLE_SECONDS", 0.1)
    monkeypatch.setattr(acceptor, "RETRY_SECONDS", 0.1)
    await limit(broker, "max.connections", 2)
    idle, busy = await broker.connect(), await broker.connect()
    await asyncio.sleep(0.2)
    assert (await busy.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    newcomer = await broker.connect()
    async with asyncio.timeout(5):
        assert (await newcomer.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert await closed(idle)
    assert (await busy.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    assert broker.services.metrics.connections_cut["evicted"].value == 1
    for client in (idle, busy, newcomer):
        await client.close()


async def test_an_idle_connection_is_closed() -> None:
    settings = BrokerSettings(stop_timeout_s=1, connections_max_idle_ms=500)
    async with running_broker(settings=settings) as broker:
        silent, half, speaking = [await broker.connect() for _ in range(3)]
        half.writer.write(struct.pack(">ih", 100, 18))
        for _ in range(6):
            assert (await speaking.call(ApiKey.API_VERSIONS, 0)).error_code == 0
            await asyncio.sleep(0.2)
        assert await closed(silent)
        assert await closed(half)
        assert (await speaking.call(ApiKey.API_VERSIONS, 0)).error_code == 0
        assert broker.services.metrics.connections_cut["idle"].value == 2
        for client in (silent, half, speaking):
            await client.close()


async def test_a_client_that_reads_no_replies_is_disconnected() -> None:
    settings = BrokerSettings(stop_timeout_s=1, connections_max_idle_ms=500)
    async with running_broker(settings=settings) as broker:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", broker.port))
            asked = request_frame(ApiKey.API_VERSIONS, 0, 1) * 100_000
            asking = asyncio.ensure_future(loop.sock_sendall(client, asked))
            cut = broker.services.metrics.connections_cut["idle"]
            await eventually(lambda: bool(cut.value))
            await asyncio.gather(asking, return_exceptions=True)
        assert broker.server.connections == 0


async def test_a_client_that_reads_slowly_is_not_idle() -> None:
    settings = BrokerSettings(stop_timeout_s=1, connections_max_idle_ms=500)
    async with running_broker(settings=settings) as broker:
        with socket.socket() as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, ("127.0.0.1", broker.port))
            asked = request_frame(ApiKey.API_VERSIONS, 0, 1) * 100_000
            asking = asyncio.ensure_future(loop.sock_sendall(client, asked))
            until = loop.time() + 2
            while loop.time() < until:
                await loop.sock_recv(client, 65_536)
                await asyncio.sleep(0.01)
            assert broker.server.connections == 1
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def test_tools_see_the_limits_with_their_sources() -> None:
    settings = BrokerSettings(stop_timeout_s=1, max_connections=7)
    names = ("max.connections", "max.connections.per.ip", "connections.max.idle.ms")
    async with running_broker(settings=settings) as broker:
        await limit(broker, "max.connections.per.ip", 9)
        result = await describe(broker, BROKER, "1", *names)
        shown = {
            each.name: (each.value, each.read_only, each.config_source) for each in result.configs
        }
        assert shown == {
            "connections.max.idle.ms": ("600000", True, 4),
            "max.connections": ("7", False, 4),
            "max.connections.per.ip": ("9", False, 3),
        }


async def test_clients_that_reconnect_together_fit_into_the_kernels_backlog(
    broker: RunningBroker,
) -> None:
    listener = broker.server._listeners[0].accepting
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    (backlog,) = struct.unpack("I", info[TCP_INFO_BACKLOG])
    assert backlog == min(server._BACKLOG, SOMAXCONN)


class Exhausted:
    """A listening socket of a process that has no file descriptor left, for some calls."""

    def __init__(self, listener: socket.socket, failures: int) -> None:
        self._listener = listener
        self._failures = failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def accept(self) -> Any:
        if self._failures:
            self._failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self._listener.accept()


async def test_a_process_without_descriptors_logs_it_once_and_accepts_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_SECONDS", 0.05)
    taken: list[socket.socket] = []
    listener: Any = Exhausted(listen("127.0.0.1", 0), failures=3)
    accepting = Acceptor(
        listener, has_room=lambda: True, take=lambda client, _address: taken.append(client)
    )
    accepting.start()
    _, writer = await asyncio.open_connection(*listener.getsockname())
    await eventually(lambda: bool(taken))
    accepting.stop()
    writer.close()
    taken[0].close()
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert "ulimit -n" in caplog.text
