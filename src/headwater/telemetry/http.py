"""The small HTTP server beside a broker: metrics, health, readiness and status.

It runs on the broker's own event loop, so ``/healthz`` answering means that the loop turns.
Each connection serves one GET or HEAD and closes; slow and long requests are dropped.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from headwater.http1 import HttpLimits, HttpServer, Request, Response
from headwater.telemetry.metrics import Metrics

_LIMITS = HttpLimits(head_bytes=8192, body_bytes=0, keep_alive=False, idle_s=5, receive_s=5)

Readiness = Callable[[], Awaitable[str | None]]
"""None when the broker can serve, or one line that says why it cannot."""

Status = Callable[[], Awaitable[Mapping[str, object]]]


class TelemetryServer:
    """Serves ``/metrics``, ``/healthz``, ``/readyz`` and ``/status.json``."""

    def __init__(self, metrics: Metrics, ready: Readiness, status: Status) -> None:
        self._metrics = metrics
        self._ready = ready
        self._status = status
        self._http = HttpServer(self._handle, _refusal, _LIMITS)

    async def start(self, host: str, port: int) -> int:
        """Listen; raises ``OSError`` where that is not possible. Returns the bound port."""
        return await self._http.start(host, port)

    async def close(self) -> None:
        await self._http.close()

    async def _handle(self, request: Request) -> Response:
        status, kind, body = await self._answer(request.method, request.target.partition("?")[0])
        headers = {"Cache-Control": "no-store"}
        return Response(status=status, body=body, content_type=kind, headers=headers)

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


def _refusal(status: HTTPStatus, reason: str) -> Response:
    return Response(status=status, body=f"{reason}\n".encode(), content_type=_TEXT)
