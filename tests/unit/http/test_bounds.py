"""Which clients the server does not wait for."""

import asyncio
import socket
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import pytest

from headwater.http.hosts import AllowedHosts
from headwater.http.protocol import MAX_CHUNK_OVERHEAD, PARSED_BYTES, READ_BYTES
from headwater.http.server import HttpServer
from tests.support.http.raw import LARGE, LIMITS, MOUNT, connect, listening

POST = "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
PATIENT = replace(LIMITS, receive_s=20, idle_s=20)


@pytest.mark.parametrize(
    "sent",
    [
        "GET /echo HT",
        POST + "Content-Length: 9\r\n\r\nabc",
        POST + "Transfer-Encoding: chunked\r\n\r\nffff\r\nabc",
    ],
)
async def test_a_client_that_stalls_in_a_request_is_dropped(port: int, sent: str) -> None:
    async with connect(port) as client:
        await client.send(sent)
        async with asyncio.timeout(LIMITS.idle_s):
            assert await client.ended()


@pytest.mark.parametrize(
    "sent", ["GET /echo HTTP/1.1\r\nA: ", POST + "Content-Length: 999\r\n\r\n"]
)
async def test_a_client_that_trickles_a_request_is_dropped(port: int, sent: str) -> None:
    """What arrives does not extend the time that the whole request has."""
    loop = asyncio.get_running_loop()
    async with connect(port) as client:
        await client.send(sent)
        began = loop.time()
        with suppress(ConnectionError):
            while not client.reader.at_eof() and loop.time() < began + LIMITS.idle_s:
                await client.send("x")
                await asyncio.sleep(0.05)
        assert loop.time() - began < LIMITS.idle_s


@pytest.mark.parametrize("chunk", ["5;", "5;a=", "0"], ids=["name", "value", "size"])
async def test_a_client_that_sends_far_more_than_a_body_is_dropped(chunk: str) -> None:
    """Neither the extension of a chunk nor the zeros of its size end."""
    max_bytes = MAX_CHUNK_OVERHEAD * MOUNT.max_body_bytes + 4 * READ_BYTES
    sent = 0
    async with listening(limits=PATIENT) as port, connect(port) as client:
        await client.send(POST + "Transfer-Encoding: chunked\r\n\r\n" + chunk)
        with suppress(ConnectionError):
            async with asyncio.timeout(5):
                while not client.reader.at_eof():
                    assert sent < 16 * max_bytes
                    await client.send("0" * READ_BYTES)
                    sent += READ_BYTES


async def test_a_new_connection_takes_the_place_of_the_oldest_silent_one(port: int) -> None:
    async with connect(port) as first, connect(port) as second, connect(port) as third:
        for client in (second, first, third):
            await client.ask("GET /echo")
            assert await client.status() == 200
        async with connect(port) as fourth:
            await fourth.ask("GET /echo")
            assert await fourth.status() == 200
            assert await second.ended()
            for client in (first, third):
                await client.ask("GET /echo")
                assert await client.status() == 200


async def test_connections_that_send_half_a_request_are_evicted_after_silent_ones() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(listening(limits=PATIENT))
        clients = [await stack.enter_async_context(connect(port)) for _ in range(3)]
        first, second, third = clients
        await first.send("GET /")
        await second.send("GET /")
        await asyncio.sleep(0.05)
        async with asyncio.timeout(PATIENT.receive_s / 2):
            for evicted in (third, first):
                newcomer = await stack.enter_async_context(connect(port))
                await newcomer.ask("GET /hang")
                assert await evicted.ended()


async def test_a_connection_over_the_limit_gets_a_reply(port: int) -> None:
    async with connect(port) as first, connect(port) as second, connect(port) as third:
        for client in (first, second, third):
            await client.ask("GET /hang")
        await asyncio.sleep(0.05)
        async with connect(port) as fourth:
            await fourth.ask("GET /echo")
            assert await fourth.status() == 503
            assert await fourth.ended()


async def test_a_client_that_reads_no_answer_is_dropped(port: int) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(2 * LIMITS.receive_s)
        received = 0
        with suppress(ConnectionResetError):
            while chunk := await loop.sock_recv(client, 2**20):
                received += len(chunk)
        assert received < LARGE


async def test_a_client_that_ends_in_the_middle_of_a_request_is_dropped_soon(port: int) -> None:
    async with connect(port) as client:
        await client.send("GET /echo HT")
        client.writer.write_eof()
        async with asyncio.timeout(2):
            assert await client.ended()


async def test_a_server_that_closes_lets_a_request_finish() -> None:
    server = HttpServer([MOUNT], AllowedHosts(), LIMITS)
    port = await server.start("127.0.0.1", 0)
    async with connect(port) as client:
        await client.send(POST + "Content-Length: 2\r\n\r\n")
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0.05)
        await client.send("ok")
        _, headers, body = await client.answer()
        assert (headers["connection"], body) == ("close", b"POST /echo ok")
        assert await client.ended()
        await closing


async def test_a_closing_server_limits_its_wait_for_clients() -> None:
    server = HttpServer([MOUNT], AllowedHosts(), LIMITS)
    port = await server.start("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    async with connect(port) as idle, connect(port) as busy:
        await busy.ask("GET /hang")
        await idle.ask("GET /echo")
        assert await idle.status() == 200
        began = loop.time()
        await server.close()
        assert loop.time() - began < LIMITS.idle_s
        assert await idle.ended()
        assert await busy.ended()
    with pytest.raises(OSError, match="Connect"):
        await asyncio.open_connection("127.0.0.1", port)


async def test_nothing_is_read_while_a_request_is_answered(port: int) -> None:
    """What a client sends ahead waits in the socket, so that it must stop."""
    ahead = b"GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n" * (LARGE // 40)
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await asyncio.sleep(0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await loop.sock_sendall(client, ahead)


async def test_a_large_body_is_parsed_in_several_turns_of_the_event_loop() -> None:
    turns = 0
    chunks = b"1\r\nx\r\n" * (25 * PARSED_BYTES // 6)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with (
        listening([replace(MOUNT, max_body_bytes=len(chunks))], limits=PATIENT) as port,
        connect(port) as client,
    ):
        counting = asyncio.create_task(count_turns())
        await client.send(POST + "Transfer-Encoding: chunked\r\n\r\n")
        await client.send(chunks + b"0\r\n\r\n")
        assert await client.status() == 200
        counting.cancel()
    assert turns > len(chunks) // PARSED_BYTES
