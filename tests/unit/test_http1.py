"""The small HTTP server: what it reads, what it refuses, and whom it does not wait for."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import pytest

from headwater.http1 import HttpLimits, HttpServer, Request, Response

LIMITS = HttpLimits(
    head_bytes=1024, body_bytes=4096, connections=3, idle_s=5, receive_s=0.3, stop_s=0.2
)

LARGE = 32 * 2**20


async def echo(request: Request) -> Response:
    if request.target == "/fail":
        raise RuntimeError("a bug")
    if request.target == "/empty":
        return Response(status=HTTPStatus.NO_CONTENT)
    if request.target == "/hang":
        await asyncio.sleep(60)
    if request.target == "/large":
        return Response(body=bytes(LARGE))
    head = f"{request.method} {request.target} "
    return Response(body=head.encode() + request.body, content_type="text/plain")


def refuse(status: HTTPStatus, reason: str) -> Response:
    return Response(status=status, body=reason.encode(), content_type="text/plain")


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, text: str | bytes) -> None:
        self.writer.write(text.encode() if isinstance(text, str) else text)
        await self.writer.drain()

    async def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = 0 if head_only else int(headers.get("content-length", 0))
        return int(first.split()[1]), headers, await self.reader.readexactly(length)

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
        writer.close()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = HttpServer(echo, refuse, LIMITS)
    yield await server.start("127.0.0.1", 0)
    await server.close()


async def test_a_connection_serves_many_requests(port: int) -> None:
    async with connect(port) as client:
        for number in range(3):
            await client.send(f"GET /{number}?q=%1F HTTP/1.1\r\nHost: x\r\n\r\n")
            status, headers, body = await client.answer()
            assert (status, body) == (200, f"GET /{number}?q=%1F ".encode())
            assert headers["connection"] == "keep-alive"


async def test_requests_that_are_sent_ahead_are_answered_in_order(port: int) -> None:
    async with connect(port) as client:
        await client.send("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        assert (await client.answer())[2] == b"GET /a "
        assert (await client.answer())[2] == b"GET /b "


@pytest.mark.parametrize(
    "request_head", ["GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"]
)
async def test_a_client_that_wants_it_gets_its_connection_closed(
    port: int, request_head: str
) -> None:
    async with connect(port) as client:
        await client.send(request_head)
        assert (await client.answer())[1]["connection"] == "close"
        assert await client.ended()


async def test_bodies_come_with_a_length_or_in_chunks(port: int) -> None:
    async with connect(port) as client:
        await client.send("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
        assert (await client.answer())[2] == b"POST / hello"
        await client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n")
        await client.send("A\r\nlo, world!\r\n0\r\nTrailer: x\r\n\r\n")
        assert (await client.answer())[2] == b"POST / hello, world!"


async def test_a_client_that_asks_first_is_told_to_go_on(port: int) -> None:
    async with connect(port) as client:
        await client.send("POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (await client.answer())[0] == 100
        await client.send("ok")
        assert (await client.answer())[2] == b"POST / ok"


async def test_head_and_empty_answers_have_no_body(port: int) -> None:
    async with connect(port) as client:
        await client.send("HEAD /abc HTTP/1.1\r\n\r\n")
        status, headers, _ = await client.answer(head_only=True)
        assert (status, headers["content-length"]) == (200, "10")
        await client.send("GET /empty HTTP/1.1\r\n\r\n")
        status, headers, _ = await client.answer()
        assert status == 204
        assert "content-length" not in headers


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\n\r\n", 400),
        ("GET http://x/ HTTP/1.1\r\n\r\n", 400),
        ("GET /\x00 HTTP/1.1\r\n\r\n", 400),
        ("GET /ä HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", 400),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        ("POST / HTTP/1.1\r\nContent-Length: 4097\r\n\r\n" + "x" * 4097, 413),
        ("POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413),
        ("GET /" + "x" * 5000 + " HTTP/1.1\r\n\r\n", 431),
    ],
)
async def test_what_is_malformed_or_too_long_is_refused(port: int, sent: str, status: int) -> None:
    async with connect(port) as client:
        await client.send(sent)
        assert (await client.answer())[0] == status
        client.writer.write_eof()
        assert await client.ended()


async def test_a_failed_handler_still_answers(port: int) -> None:
    async with connect(port) as client:
        await client.send("GET /fail HTTP/1.1\r\n\r\n")
        assert (await client.answer())[::2] == (500, b"internal error")


@pytest.mark.parametrize("sent", ["GET / HT", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"])
async def test_a_client_that_stalls_in_a_request_is_dropped(port: int, sent: str) -> None:
    async with connect(port) as client:
        await client.send(sent)
        assert await client.ended()


async def test_a_new_connection_takes_the_place_of_the_oldest_silent_one(port: int) -> None:
    async with connect(port) as first, connect(port) as second, connect(port) as third:
        for client in (second, first, third):
            await client.send("GET / HTTP/1.1\r\n\r\n")
            assert (await client.answer())[0] == 200
        async with connect(port) as fourth:
            await fourth.send("GET / HTTP/1.1\r\n\r\n")
            assert (await fourth.answer())[0] == 200
            assert await second.ended()
            for client in (first, third):
                await client.send("GET / HTTP/1.1\r\n\r\n")
                assert (await client.answer())[0] == 200


async def test_connections_that_send_half_a_request_are_evicted_after_silent_ones(
    port: int,
) -> None:
    async with connect(port) as first, connect(port) as second, connect(port) as third:
        await first.send("GET /")
        await second.send("GET /")
        await asyncio.sleep(0.05)
        async with connect(port) as fourth, connect(port) as fifth:
            for client in (fourth, fifth):
                await client.send("GET /hang HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(LIMITS.receive_s):
                assert await third.ended()
                assert await first.ended()


async def test_one_connection_too_many_is_told_so(port: int) -> None:
    async with connect(port) as first, connect(port) as second, connect(port) as third:
        for client in (first, second, third):
            await client.send("GET /hang HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        async with connect(port) as fourth:
            assert (await fourth.answer())[0] == 503


async def test_a_client_that_reads_no_answer_is_dropped(port: int) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\n\r\n")
        await asyncio.sleep(2 * LIMITS.receive_s)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := await loop.sock_recv(client, 2**20):
                received += len(chunk)
        assert received < LARGE


async def test_a_server_that_closes_waits_for_nobody_for_long() -> None:
    server = HttpServer(echo, refuse, LIMITS)
    port = await server.start("127.0.0.1", 0)
    async with connect(port) as idle, connect(port) as busy:
        await busy.send("GET /hang HTTP/1.1\r\n\r\n")
        await idle.send("GET / HTTP/1.1\r\n\r\n")
        assert (await idle.answer())[0] == 200
        await server.close()
        assert await idle.ended()
        assert await busy.ended()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", port)
