"""Pages beside a broker: metrics, health, readiness and status.

They are served on the broker's own event loop, so a reply of ``/healthz`` means that the loop runs.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

from headwater.http.limits import HttpLimits
from headwater.http.messages import HttpRequest, Response
from headwater.http.mounts import TEXT, Handler, Mount, Route, plain_refusal
from headwater.telemetry.metrics import Metrics

LIMITS: Final = HttpLimits(head_bytes=8192, keep_alive=False, idle_s=5, receive_s=5)
"""Each connection serves one small request."""

Readiness = Callable[[], Awaitable[str | None]]
"""None if the broker can serve, or one line that says why it cannot."""

Status = Callable[[], Awaitable[Mapping[str, object]]]

_EXPOSITION: Final = "text/plain; version=0.0.4; charset=utf-8"
_NO_STORE: Final = {"Cache-Control": "no-store"}


def telemetry_mount(metrics: Metrics, ready: Readiness, status: Status) -> Mount:
    """``/metrics``, ``/healthz``, ``/readyz`` and ``/status.json``, for GET and HEAD."""

    async def show_metrics(_request: HttpRequest) -> Response:
        from headwater.telemetry.prometheus import exposition

        return _page(exposition(metrics), _EXPOSITION)

    async def show_health(_request: HttpRequest) -> Response:
        return _page(b"ok\n", TEXT)

    async def show_readiness(_request: HttpRequest) -> Response:
        reason = await ready()
        body = f"{reason or 'ready'}\n".encode()
        return _page(body, TEXT, HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK)

    async def show_status(_request: HttpRequest) -> Response:
        return _page(f"{json.dumps(await status(), indent=2)}\n".encode(), "application/json")

    pages: dict[str, Handler] = {
        "/metrics": show_metrics,
        "/healthz": show_health,
        "/readyz": show_readiness,
        "/status.json": show_status,
    }
    routes = [
        Route(method, path, page) for path, page in pages.items() for method in ("GET", "HEAD")
    ]
    return Mount(routes=routes, refusal=_refusal(" ".join(pages)))


def _page(body: bytes, content_type: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status=status, body=body, content_type=content_type, headers=_NO_STORE)


def _refusal(paths: str) -> Callable[[HTTPStatus, str], Response]:
    """Errors as plain text. That of an unknown path lists the known ones."""

    def refuse(status: HTTPStatus, reason: str) -> Response:
        return plain_refusal(status, paths if status is HTTPStatus.NOT_FOUND else reason)

    return refuse
