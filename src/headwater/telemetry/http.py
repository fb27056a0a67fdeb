"""The small HTTP server beside a broker: metrics, health, readiness and status.

It runs on the broker's own event loop, so ``/healthz`` answering means that the loop turns.
Each connection serves one GET or HEAD and closes; slow and long requests are dropped.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from headwater.telemetry.metrics import Metrics

_HEAD_LIMIT = 8192
_HEAD_TIMEOUT = 5.0
_BAD_CLIENT = (
    TimeoutError,
    OSError,
    ValueError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)

Readiness = Callable[[], Awaitable[str | None]]
"""None when the broker can serve, or one line that says why it cannot."""

Status = Callable[[], Awaitable[Mapping[str, object]]]


class TelemetryServer:
    """Serves ``/metrics``, ``/healthz``, ``/readyz`` and ``/status.json``."""

    def __init__(self, metrics: Metrics, ready: Readiness, status: Status) -> None:
        self._metrics = metrics
        self._ready = ready
        self._status = status
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; raises ``OSError`` where that is not possible. Returns the bound port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=_HEAD_LIMIT)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                method, path = head.decode("latin-1").split(" ", 2)[:2]
                status, kind, body = await self._answer(method, path.partition("?")[0])
                writer.write(_response(status, kind, body, with_body=method != "HEAD"))
                await writer.drain()
        except _BAD_CLIENT:
            pass  # who stalls, hangs up or speaks no HTTP gets no answer
        finally:
            writer.close()

    async def _answer(self, method: str, path: str) -> tuple[HTTPStatus, str, bytes]:
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n"
        match path:
            case "/metrics":
                from headwater.telemetry.prometheus import exposition

                return HTTPStatus.OK, _EXPOSITION, exposition(self._metrics)
            case "/healthz":
                return HTTPStatus.OK, _TEXT, b"ok\n"
            case "/readyz":
                reason = await self._ready()
                status = HTTPStatus.OK if reason is None else HTTPStatus.SERVICE_UNAVAILABLE
                return status, _TEXT, f"{reason or 'ready'}\n".encode()
            case "/status.json":
                body = json.dumps(await self._status(), indent=2)
                return HTTPStatus.OK, "application/json", f"{body}\n".encode()
            case _:
                return HTTPStatus.NOT_FOUND, _TEXT, b"/metrics /healthz /readyz /status.json\n"


_TEXT = "text/plain; charset=utf-8"
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


def _response(status: HTTPStatus, kind: str, body: bytes, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
