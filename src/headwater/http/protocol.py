"""One connection: its phases, their time limits, and what is not HTTP.

aiohttp parses requests and writes replies. This subclass of its connection handler adds the
bounds that aiohttp does not have. It is the only place that relies on how that class works.
"""

import asyncio
import logging
from http import HTTPStatus
from typing import Final, cast

from aiohttp import http_exceptions, web

from headwater.http.connections import Connections, Phase
from headwater.http.limits import HttpLimits
from headwater.http.messages import Response
from headwater.http.mounts import Refusal

logger = logging.getLogger(__name__)

SERVER: Final = "Headwater"
LINGER_S: Final = 2.0
"""How long a refused client may still send, so that it can read the refusal."""
HALF_CLOSED_S: Final = 1.0
"""How long after its end of input a connection may stay without a request in flight."""
READ_BYTES: Final = 64 * 1024
PARSED_BYTES: Final = 8 * 1024
"""What is parsed in one turn of the event loop, so that small chunks do not block it for long."""
MAX_CHUNK_OVERHEAD: Final = 8
"""Bytes of a chunked body, with the sizes and extensions of its chunks, for each of its own."""

_NOT_READ: Final = (Phase.ANSWERING, Phase.SENDING)
_END_OF_HEAD: Final = b"\r\n\r\n"


class HttpConnection(web.RequestHandler):
    """A connection that is never in a phase for longer than the limits allow.

    While a request is answered nothing is read, so that requests sent ahead wait in the socket.
    """

    def __init__(
        self,
        server: web.Server,
        connections: Connections,
        limits: HttpLimits,
        refusal: Refusal,
        max_body_bytes: int,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            logger=logger,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to have none
            keepalive_timeout=limits.idle_s + limits.receive_s,  # the phases end sooner
            lingering_time=0,  # a ``LastReply`` lingers by itself
            max_line_size=limits.head_bytes,
            max_field_size=limits.head_bytes,
            max_headers=limits.headers,
            read_bufsize=READ_BYTES,
            auto_decompress=False,
        )
        self.phase = Phase.SILENT
        self.is_half_closed = False
        self._open_connections = connections
        self._limits = limits
        self._refusal = refusal
        self._phase_timer: asyncio.TimerHandle | None = None
        self._socket: asyncio.Transport | None = None
        self._head_seen: int | None = 0
        """Bytes of a head that is not complete; None after its end."""
        self._head_tail = b""
        self._body_seen = 0
        """Bytes since the end of the head, whatever they are."""
        self._max_body_seen = MAX_CHUNK_OVERHEAD * max_body_bytes + 2 * READ_BYTES
        self._unparsed = b""
        self._next_parse: asyncio.Handle | None = None
        self._closed = asyncio.Event()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        socket = cast("asyncio.Transport", transport)  # uvloop's is of another class
        self._socket = socket
        # A send then waits until all bytes are sent, which detects a client that reads nothing.
        socket.set_write_buffer_limits(high=0)
        if self._open_connections.admit(self):
            self.enter(Phase.SILENT)
            super().connection_made(transport)
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections; try again later")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._open_connections.remove(self)
        self._set_timer(None)
        self._closed.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not data:  # aiohttp parses on after a pause
            super().data_received(data)
        elif self._unparsed:
            self._unparsed += data
        else:
            self._parse(data)

    def eof_received(self) -> bool:  # type: ignore[override]  # aiohttp closes at once
        """Keep a connection open until every request is answered, if its client sends no more."""
        self.is_half_closed = True
        self._closed.set()
        if self.phase in (Phase.SILENT, Phase.RECEIVING):
            self._set_timer(HALF_CLOSED_S)
        is_idle = self._waiter is not None and not self._waiter.done()
        return self.phase is not Phase.CLOSING and not (self.phase is Phase.SILENT and is_idle)

    # What the server calls.

    def enter(self, phase: Phase) -> None:
        """Begin a phase and its time limit. Without effect if the connection is closed."""
        socket = self._socket
        if socket is None or socket.is_closing():
            return
        self.phase = phase
        self._open_connections.move(self, phase)
        match phase:
            case Phase.SILENT:
                self._set_timer(HALF_CLOSED_S if self.is_half_closed else self._limits.idle_s)
                self._read_on()
            case Phase.RECEIVING | Phase.SENDING:
                self._set_timer(self._limits.receive_s)
            case Phase.ANSWERING:
                self._set_timer(None)
                socket.pause_reading()
            case Phase.CLOSING:
                self._set_timer(LINGER_S)

    def begin_request(self) -> None:
        """A request's head is complete, and its body begins."""
        self._head_seen = None
        self._body_seen = 0
        if self.phase is Phase.SILENT:
            self.enter(Phase.RECEIVING)

    @property
    def has_more_requests(self) -> bool:
        """Whether the client has sent requests ahead."""
        return bool(self._messages or self._unparsed)

    def abort(self) -> None:
        """Close at once, whatever is in flight."""
        if self._socket is not None:
            self._socket.abort()

    async def linger(self) -> None:
        """Half-close, and drop what the client sends until it closes or the time is over.

        A close with bytes unread resets the connection, and the client might lose the reply.
        """
        socket = self._socket
        if socket is not None and not socket.is_closing() and not self.is_half_closed:
            self._unparsed = b""
            self.enter(Phase.CLOSING)
            socket.resume_reading()  # aiohttp may have paused it in the middle of a body
            socket.write_eof()
            await self.wait_closed()

    async def wait_closed(self) -> None:
        """Return when the client has closed the connection, or at least its side of it."""
        await self._closed.wait()

    # What aiohttp calls.

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that aiohttp's parser refuses; request handlers raise no errors."""
        refused, reason = _parse_error(exc)
        logger.debug("Refused what is not an HTTP request", extra={"reason": reason})
        self._refuse(refused, reason)
        return _Sent(self)

    def _resume_transport_reading(self) -> None:
        """Continue to read after aiohttp has used its bytes, if no other bytes are waiting."""
        if not self._unparsed and self.phase not in _NOT_READ:
            super()._resume_transport_reading()

    def _read_on(self) -> None:
        """Continue to parse and read, unless aiohttp has paused reading."""
        if self._unparsed:
            self._parse_soon()
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _parse_soon(self) -> None:
        if self._next_parse is None:
            self._next_parse = self._loop.call_soon(self._parse_more)

    def _parse_more(self) -> None:
        self._next_parse = None
        if self._unparsed and self.phase not in _NOT_READ:
            data, self._unparsed = self._unparsed, b""
            self._parse(data)
            if not self._unparsed:
                self._read_on()

    def _parse(self, data: bytes) -> None:
        """Parse a part of what has arrived; the rest follows in other turns of the event loop."""
        if self.phase is Phase.CLOSING:
            return
        data, self._unparsed = data[:PARSED_BYTES], data[PARSED_BYTES:]
        if self._unparsed:
            self._pause_transport_reading()
            self._parse_soon()
        if self.phase is Phase.SILENT and data.strip(b"\r\n"):  # some end a body with a line
            self._head_seen = 0
            self._head_tail = b""
            self._body_seen = 0
            self.enter(Phase.RECEIVING)
        if self.phase is Phase.RECEIVING and self._body_is_too_long(data):
            self.abort()
        elif self.phase is Phase.RECEIVING and self._head_is_too_long(data):
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"request line and headers have more than {self._limits.head_bytes} bytes",
            )
        else:
            super().data_received(data)

    def _body_is_too_long(self, data: bytes) -> bool:
        """Whether far more arrives than a body: aiohttp does not bound the extensions of chunks."""
        if self._head_seen is None:
            self._body_seen += len(data)
        return self._body_seen > self._max_body_seen

    def _head_is_too_long(self, data: bytes) -> bool:
        if self._head_seen is None:
            return False
        end = (self._head_tail + data).find(_END_OF_HEAD)
        if end < 0:
            self._head_seen += len(data)
            self._head_tail = (self._head_tail + data)[1 - len(_END_OF_HEAD) :]
            return self._head_seen > self._limits.head_bytes
        length = self._head_seen - len(self._head_tail) + end + len(_END_OF_HEAD)
        self._head_seen = None
        return length > self._limits.head_bytes

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        """Answer without aiohttp, which has no request to answer."""
        if self.phase is Phase.CLOSING or self._socket is None or self._socket.is_closing():
            return
        self._unparsed = b""
        self.enter(Phase.CLOSING)
        self._socket.write(encode_refusal(self._refusal(status, reason)))
        if not self.is_half_closed:
            self._socket.write_eof()

    def _set_timer(self, seconds: float | None) -> None:
        if self._phase_timer is not None:
            self._phase_timer.cancel()
        timer = None if seconds is None else self._loop.call_later(seconds, self.abort)
        self._phase_timer = timer


class HttpReply(web.Response):
    """A reply in aiohttp's form. Raises ``ValueError`` in ``prepare`` for a malformed header."""

    def __init__(self, response: Response, *, close: bool) -> None:
        has_body = response.status not in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
        kind = {"Content-Type": response.content_type} if has_body else {}
        connection = {"Connection": "close"} if close else {}
        headers = {"Server": SERVER, **kind, **response.headers, **connection}
        super().__init__(
            status=response.status, body=response.body if has_body else None, headers=headers
        )
        if close:
            self.force_close()


class LastReply(HttpReply):
    """The reply after which a connection closes though its client may still be sending."""

    def __init__(self, connection: HttpConnection, response: Response) -> None:
        super().__init__(response, close=True)
        self._connection = connection

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        await self._connection.linger()


class _Sent(web.Response):
    """A placeholder for a reply that was sent without aiohttp."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.force_close()
        self._connection = connection

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to prepare."""

    async def write_eof(self, data: bytes = b"") -> None:
        await self._connection.wait_closed()


def encode_refusal(response: Response) -> bytes:
    """A whole reply that closes its connection.

    >>> encode_refusal(Response(status=HTTPStatus.NOT_FOUND, body=b"{}")).splitlines()[0]
    b'HTTP/1.1 404 Not Found'
    """
    head = (
        f"HTTP/1.1 {response.status.value} {response.status.phrase}\r\n"
        f"Server: {SERVER}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + response.body


def _parse_error(error: BaseException | None) -> tuple[HTTPStatus, str]:
    """Status and reason, which never repeats what the client sent."""
    match error:
        case http_exceptions.LineTooLong():
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "a header is too long"
        case http_exceptions.InvalidHeader():
            return HTTPStatus.BAD_REQUEST, "a header is malformed"
        case _:
            return HTTPStatus.BAD_REQUEST, "not an HTTP request"
