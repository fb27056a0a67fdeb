"""A server with routes that misbehave, and clients that send raw bytes to it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

from headwater.http.hosts import AllowedHosts
from headwater.http.limits import HttpLimits
from headwater.http.messages import HttpRequest, Response
from headwater.http.mounts import Mount, Route, plain_refusal
from headwater.http.server import HttpServer

LIMITS = HttpLimits(head_bytes=1024, connections=3, idle_s=5, receive_s=0.3, stop_s=0.2)
MAX_BODY_BYTES = 4096
LARGE = 32 * 2**20


async def echo(request: HttpRequest) -> Response:
    head = f"{request.method} {request.target} "
    return Response(body=head.encode() + request.body, content_type="text/plain")


async def fail(_request: HttpRequest) -> Response:
    raise RuntimeError("a bug")


async def empty(_request: HttpRequest) -> Response:
    return Response(status=HTTPStatus.NO_CONTENT)


async def hang(_request: HttpRequest) -> Response:
    await asyncio.sleep(60)
    raise AssertionError


async def large(_request: HttpRequest) -> Response:
    return Response(body=bytes(LARGE))


async def split(_request: HttpRequest) -> Response:
    """A reply with a header that would be two."""
    return Response(headers={"X-Name": "a\r\nSet-Cookie: b"})


MOUNT = Mount(
    routes=[
        Route("GET", "/fail", fail),
        Route("GET", "/empty", empty),
        Route("GET", "/hang", hang),
        Route("GET", "/large", large),
        Route("GET", "/split", split),
        *(Route(method, "/echo", echo) for method in ("GET", "HEAD", "POST")),
        Route("GET", "/echo/{name}", echo),
    ],
    refusal=plain_refusal,
    max_body_bytes=MAX_BODY_BYTES,
)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def ask(self, first_line: str, *headers: str, body: str = "") -> None:
        """Send a request of HTTP/1.1 with the headers that every request needs."""
        lines = [f"{first_line} HTTP/1.1", "Host: localhost", *headers]
        await self.send("\r\n".join(lines) + "\r\n\r\n" + body)

    async def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = 0 if head_only else int(headers.get("content-length", 0))
        return int(first.split()[1]), headers, await self.reader.readexactly(length)

    async def status(self) -> int:
        return (await self.answer())[0]

    async def ended(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def listening(
    mounts: Sequence[Mount] = (MOUNT,),
    hosts: AllowedHosts | None = None,
    limits: HttpLimits = LIMITS,
) -> AsyncIterator[int]:
    """A server; its port."""
    server = HttpServer(mounts, hosts or AllowedHosts(), limits)
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.close()
