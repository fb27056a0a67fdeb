"""A request checked, read from its connection and answered."""

import asyncio
import logging
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from headwater.http.connections import Phase
from headwater.http.hosts import SETTING, AllowedHosts, host_name
from headwater.http.messages import HttpRequest, Refused, Response
from headwater.http.mounts import Mount, mount_of
from headwater.http.protocol import HttpConnection, HttpReply, LastReply
from headwater.http.router import NoRoute, Router

logger = logging.getLogger(__name__)

_TARGET: Final = re.compile(r"/[!\"$-~]*")
"""Printable ASCII without ``#``."""
_VALUE: Final = re.compile(r"[\t -~]*")
_VERSIONS: Final = ((1, 0), (1, 1))
_MAX_SHOWN: Final = 100


class RequestServer:
    """Answers the requests of all connections of one server."""

    def __init__(self, mounts: Sequence[Mount], hosts: AllowedHosts, *, keep_alive: bool) -> None:
        self._mounts = mounts
        self._hosts = hosts
        self._router = Router(mounts)
        self._running: set[asyncio.Task[object]] = set()
        self.keep_alive = keep_alive
        """Whether a connection may go on after a reply."""

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """What aiohttp calls for each request. The reply that it returns has been sent."""
        assert isinstance(request, web.Request)
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await self._serve(request, connection)
        finally:
            self._running.discard(task)

    async def cancel(self) -> None:
        """End the requests in flight, and wait until they have ended."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    async def _serve(self, request: web.Request, connection: HttpConnection) -> web.StreamResponse:
        mount = mount_of(request.raw_path.partition("?")[0], self._mounts)
        connection.begin_request()
        try:
            try:
                check_request(request, self._hosts)
                body = await read_body(request, mount.max_body_bytes)
                connection.enter(Phase.ANSWERING)
                response = await self._answer(request, body)
                return await self._send(request, connection, response)
            except NoRoute as error:
                return await self._send(request, connection, _without_route(mount, error))
            except Refused as refused:
                response = mount.refusal(refused.status, refused.reason)
                return await _transmit(request, connection, LastReply(connection, response))
        except (ConnectionError, web.RequestPayloadError):
            connection.abort()  # the client has gone, or what it sends is not a body
            return web.Response()
        except Exception:
            path = request.raw_path.partition("?")[0]
            logger.exception("HTTP request failed", extra={"method": request.method, "path": path})
            response = mount.refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")
            return await _transmit(request, connection, HttpReply(response, close=True))

    async def _send(
        self, request: web.Request, connection: HttpConnection, response: Response
    ) -> web.StreamResponse:
        is_last = connection.is_half_closed and not connection.has_more_requests
        reply = HttpReply(response, close=is_last or not self.keep_alive)
        return await _transmit(request, connection, reply)

    async def _answer(self, request: web.Request, body: bytes) -> Response:
        match = await self._router.find(request)
        return await match.route.handler(
            HttpRequest(
                method=request.method,
                target=request.raw_path,
                variables=match.variables,
                headers={
                    name.lower(): ",".join(request.headers.getall(name)) for name in request.headers
                },
                body=body,
            )
        )


async def _transmit(
    request: web.Request, connection: HttpConnection, reply: HttpReply
) -> web.StreamResponse:
    connection.enter(Phase.SENDING)
    await reply.prepare(request)
    await reply.write_eof()
    if not isinstance(reply, LastReply):
        connection.enter(Phase.SILENT)
    return reply


def _without_route(mount: Mount, error: NoRoute) -> Response:
    response = mount.refusal(error.status, error.reason)
    if response.status is not HTTPStatus.METHOD_NOT_ALLOWED:
        return response
    headers = {**response.headers, "Allow": ", ".join(error.allowed)}
    return Response(
        status=response.status,
        body=response.body,
        content_type=response.content_type,
        headers=headers,
    )


def check_request(request: web.Request, hosts: AllowedHosts) -> None:
    """Raises ``Refused`` for a request head that aiohttp accepts and this server does not."""
    if tuple(request.version) not in _VERSIONS:
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is served")
    if not _TARGET.fullmatch(request.raw_path):
        raise Refused(HTTPStatus.BAD_REQUEST, "the request's target is not a path")
    if not all(_VALUE.fullmatch(value) for value in request.headers.values()):
        raise Refused(HTTPStatus.BAD_REQUEST, "a header is malformed")
    host = request.headers.get("Host")
    if host is not None and not hosts.allow(host):
        raise Refused(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"this server does not answer to host {host_name(host)[:_MAX_SHOWN]!r}; "
            f"if it should, add the name to {SETTING}",
        )
    coding = request.headers.get("Transfer-Encoding", "chunked")
    if coding.lower() != "chunked":
        raise Refused(HTTPStatus.NOT_IMPLEMENTED, "the only transfer coding is chunked")


async def read_body(request: web.Request, max_bytes: int) -> bytes:
    """The whole body. Raises ``Refused`` as soon as it is known to be too long."""
    if (request.content_length or 0) > max_bytes:
        raise _too_long(max_bytes)
    expects = request.headers.get("Expect", "").lower()
    if expects == "100-continue" and request.body_exists:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the reply has not begun
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > max_bytes:
            raise _too_long(max_bytes)
    return bytes(body)


def _too_long(max_bytes: int) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request's body may have {max_bytes} bytes at most"
    )
