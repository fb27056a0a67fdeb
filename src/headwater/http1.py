"""A small HTTP/1.1 server on the event loop: bounded, and patient with nobody.

It keeps connections open between requests, reads bodies with a length or in chunks, and answers
one request of a connection after the other. Heads, bodies, connections and every wait have a
limit, so that a slow or hostile client costs little and holds up nobody else. If all connections
are taken, a new one takes the place of the oldest that is not being answered.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus

logger = logging.getLogger(__name__)

_VERSIONS = ("HTTP/1.0", "HTTP/1.1")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(r"/[!-~]*")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_LENGTH = re.compile(r"[0-9]{1,12}")
_NO_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_MOST_TRAILERS = 16
_LINGER_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asked."""

    method: str
    target: str
    """Path and query as they were sent, still encoded; begins with a slash."""
    headers: Mapping[str, str]
    """By lower-case name; of one that came more than once, all values joined by commas."""
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What it gets. A HEAD request gets the same without its body."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one client may take."""

    head_bytes: int = 32 * 1024
    body_bytes: int = 4 * 1024 * 1024
    connections: int = 64
    keep_alive: bool = True
    """Whether a connection serves more than one request."""
    idle_s: float = 60.0
    """How long a connection may say nothing between requests."""
    receive_s: float = 20.0
    """How long one request may take to arrive, and one answer to leave."""
    stop_s: float = 5.0
    """How long requests under way may go on when the server closes."""


Handler = Callable[[Request], Awaitable[Response]]
Refusal = Callable[[HTTPStatus, str], Response]
"""The answer to what never reaches the handler, given the reason."""


class _Refused(Exception):
    """A request that cannot be served; its connection closes after the answer."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class _State(Enum):
    """What a connection is at."""

    SILENT = auto()
    RECEIVING = auto()
    ANSWERING = auto()
    SENDING = auto()


_GONE = (TimeoutError, OSError, asyncio.IncompleteReadError)
"""Who stalls or hangs up gets no answer."""


class HttpServer:
    """Serves ``handler``, which must not raise; a failure becomes a refusal with status 500."""

    def __init__(
        self, handler: Handler, refusal: Refusal, limits: HttpLimits | None = None
    ) -> None:
        self._handler = handler
        self._refusal = refusal
        self._limits = limits or HttpLimits()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], _State] = {}
        """The one whose state changed last comes last."""

    async def start(self, host: str, port: int) -> int:
        """Listen; raises ``OSError`` where that is not possible. Returns the bound port."""
        self._server = await asyncio.start_server(
            self._connected, host, port, limit=self._limits.head_bytes
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Take no more connections; requests under way get a moment to finish."""
        if self._server is None:
            return
        self._server.close()
        for task, state in self._connections.items():
            if state is _State.SILENT:
                task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=self._limits.stop_s)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        full = len(self._connections) >= self._limits.connections and not self._evict()
        self._enter(task, _State.SILENT)
        # ``drain`` then waits until all is sent, so that a client which reads nothing is dropped.
        writer.transport.set_write_buffer_limits(high=0)
        try:
            if full:
                reason = "too many connections; try again later"
                await self._refuse(reader, writer, HTTPStatus.SERVICE_UNAVAILABLE, reason)
            else:
                await self._converse(task, reader, writer)
        except _GONE:
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # closed or evicted, and nobody awaits the stream's task
        finally:
            self._connections.pop(task, None)
            writer.close()

    def _enter(self, task: asyncio.Task[None], state: _State) -> None:
        self._connections.pop(task, None)
        self._connections[task] = state

    def _evict(self) -> bool:
        """Cut the oldest connection that is not being answered; False if there is none."""
        for state in (_State.SILENT, _State.RECEIVING, _State.SENDING):
            for task, there in self._connections.items():
                if there is state:
                    task.cancel()
                    del self._connections[task]
                    return True
        return False

    async def _converse(
        self,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        assert self._server is not None
        while self._server.is_serving():
            try:
                async with asyncio.timeout(self._limits.idle_s):
                    while (first := await reader.read(1)) in (b"\r", b"\n"):
                        pass  # some clients end a body with an empty line
                if not first:
                    return
                self._enter(task, _State.RECEIVING)
                async with asyncio.timeout(self._limits.receive_s):
                    request, keep = await self._receive(first, reader, writer)
            except _Refused as refused:
                await self._refuse(reader, writer, refused.status, refused.reason)
                return
            self._enter(task, _State.ANSWERING)
            response = await self._answer(request)
            self._enter(task, _State.SENDING)
            await self._send(writer, response, keep=keep, head_only=request.method == "HEAD")
            self._enter(task, _State.SILENT)
            if not keep:
                return

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Exception:
            logger.exception("Request failed", extra={"method": request.method})
            return self._refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error")

    async def _receive(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[Request, bool]:
        """One request, and whether its connection may go on after it."""
        try:
            head = first + await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _Refused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the request line and headers are longer than {self._limits.head_bytes} bytes",
            ) from None
        method, target, version, headers = parse_head(head)
        length = body_length(headers, self._limits.body_bytes)
        if headers.get("expect", "").lower() == "100-continue" and length != 0:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._chunks(reader) if length is None else await reader.readexactly(length)
        options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
        keep = "close" not in options and (version == "HTTP/1.1" or "keep-alive" in options)
        keep = keep and self._limits.keep_alive
        return Request(method=method, target=target, headers=headers, body=body), keep

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        try:
            while True:
                line = await reader.readuntil(b"\r\n")
                size = int(match[1], 16) if (match := _CHUNK.fullmatch(line)) else -1
                if size < 0:
                    raise _Refused(HTTPStatus.BAD_REQUEST, "a chunk has no valid size")
                if len(body) + size > self._limits.body_bytes:
                    raise _too_large(self._limits.body_bytes)
                if size == 0:
                    break
                body += await reader.readexactly(size)
                if await reader.readexactly(2) != b"\r\n":
                    raise _Refused(HTTPStatus.BAD_REQUEST, "a chunk is longer than its size")
            for _ in range(_MOST_TRAILERS):
                if await reader.readuntil(b"\r\n") == b"\r\n":
                    return bytes(body)
        except asyncio.LimitOverrunError:
            raise _Refused(HTTPStatus.BAD_REQUEST, "a chunk's head is too long") from None
        raise _Refused(HTTPStatus.BAD_REQUEST, "too many trailers")

    async def _refuse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        status: HTTPStatus,
        reason: str,
    ) -> None:
        await self._send(writer, self._refusal(status, reason), keep=False, head_only=False)
        writer.write_eof()
        # A close with bytes unread resets the connection, and the client might lose the answer.
        async with asyncio.timeout(_LINGER_S):
            while await reader.read(65_536):
                pass

    async def _send(
        self, writer: asyncio.StreamWriter, response: Response, *, keep: bool, head_only: bool
    ) -> None:
        writer.write(encode_head(response, keep=keep))
        if not head_only and response.status not in _NO_BODY:
            writer.write(response.body)
        async with asyncio.timeout(self._limits.receive_s):
            await writer.drain()


def parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """Method, target, version and headers of a head that ends in an empty line."""
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    except UnicodeDecodeError:
        raise _Refused(HTTPStatus.BAD_REQUEST, "the head is not ASCII") from None
    parts = first.split(" ")
    if len(parts) != 3 or not _TOKEN.fullmatch(parts[0]) or not _TARGET.fullmatch(parts[1]):
        raise _Refused(HTTPStatus.BAD_REQUEST, "not an HTTP request line")
    if parts[2] not in _VERSIONS:
        raise _Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 is served")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name):
            raise _Refused(HTTPStatus.BAD_REQUEST, "a header line is malformed")
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    return parts[0], parts[1], parts[2], headers


def body_length(headers: Mapping[str, str], limit: int) -> int | None:
    """How long a request's body is; None where it comes in chunks."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise _Refused(HTTPStatus.BAD_REQUEST, "both a length and a transfer coding")
        if coding.lower() != "chunked":
            raise _Refused(HTTPStatus.NOT_IMPLEMENTED, "the only transfer coding is chunked")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise _Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    if int(length) > limit:
        raise _too_large(limit)
    return int(length)


def encode_head(response: Response, *, keep: bool) -> bytes:
    """The head of an answer, up to and with its empty line."""
    lines = [f"HTTP/1.1 {response.status.value} {response.status.phrase}"]
    if response.status not in _NO_BODY:
        lines.append(f"Content-Type: {response.content_type}")
        lines.append(f"Content-Length: {len(response.body)}")
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    lines.append(f"Connection: {'keep-alive' if keep else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _too_large(limit: int) -> _Refused:
    reason = f"a request's body may have {limit} bytes at most"
    return _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
