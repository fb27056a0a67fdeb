"""The pages beside a broker."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from headwater.http.hosts import AllowedHosts
from headwater.http.server import HttpServer
from headwater.telemetry.metrics import Metrics
from headwater.telemetry.pages import LIMITS, telemetry_mount


class ObservedBroker:
    def __init__(self) -> None:
        self.reason: str | None = None
        self.metrics = Metrics()
        self.port = 0

    async def ready(self) -> str | None:
        return self.reason

    async def status(self) -> dict[str, object]:
        return {"id": 1}

    async def ask(self, request: bytes) -> tuple[str, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        head, _, body = answer.partition(b"\r\n\r\n")
        return head.decode().partition("\r\n")[0], body

    async def get(self, path: str) -> tuple[str, bytes]:
        return await self.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    broker = ObservedBroker()
    mount = telemetry_mount(broker.metrics, broker.ready, broker.status)
    server = HttpServer([mount], AllowedHosts(), LIMITS)
    broker.port = await server.start("127.0.0.1", 0)
    yield broker
    await server.close()


async def test_metrics_are_scraped(broker: ObservedBroker) -> None:
    broker.metrics.commits.inc(5)
    status, body = await broker.get("/metrics?x=1")
    assert status == "HTTP/1.1 200 OK"
    assert b"headwater_commits_total 5.0\n" in body


async def test_health_is_the_loop_turning(broker: ObservedBroker) -> None:
    assert await broker.get("/healthz") == ("HTTP/1.1 200 OK", b"ok\n")


async def test_health_answers_while_silent_sockets_take_all_connections(
    broker: ObservedBroker,
) -> None:
    silent = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(200)]
    assert await broker.get("/healthz") == ("HTTP/1.1 200 OK", b"ok\n")
    for _, writer in silent:
        writer.close()


async def test_readiness_says_why_not(broker: ObservedBroker) -> None:
    assert await broker.get("/readyz") == ("HTTP/1.1 200 OK", b"ready\n")
    broker.reason = "the object store does not answer"
    status, body = await broker.get("/readyz")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b"the object store does not answer\n"


async def test_status_is_json(broker: ObservedBroker) -> None:
    assert json.loads((await broker.get("/status.json"))[1]) == {"id": 1}


async def test_head_has_no_body(broker: ObservedBroker) -> None:
    assert await broker.ask(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == (
        "HTTP/1.1 200 OK",
        b"",
    )


async def test_other_paths_and_methods_are_refused(broker: ObservedBroker) -> None:
    assert (await broker.get("/"))[0] == "HTTP/1.1 404 Not Found"
    assert (await broker.ask(b"POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0].startswith(
        "HTTP/1.1 405 "
    )


@pytest.mark.parametrize("request_", [b" \r\n\r\n", b"x" * 20_000, b"\x00\xff\r\n\r\n"])
async def test_what_is_not_http_is_refused_and_the_server_lives(
    broker: ObservedBroker, request_: bytes
) -> None:
    with contextlib.suppress(ConnectionError):
        assert (await broker.ask(request_))[0].startswith("HTTP/1.1 4")
    assert (await broker.get("/healthz"))[1] == b"ok\n"
