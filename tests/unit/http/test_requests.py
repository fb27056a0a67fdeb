"""What the server reads, and what it refuses."""

import logging

import pytest

from tests.support.http.raw import connect

pytestmark = pytest.mark.usefixtures("_parser")

POST = "POST /echo HTTP/1.1\r\nHost: localhost\r\n"


async def test_a_connection_serves_many_requests(port: int) -> None:
    async with connect(port) as client:
        for number in range(3):
            await client.ask(f"GET /echo/{number}?q=%1F")
            status, headers, body = await client.answer()
            assert (status, body) == (200, f"GET /echo/{number}?q=%1F ".encode())
            assert headers.get("connection") != "close"


async def test_requests_that_are_sent_ahead_are_answered_in_order(port: int) -> None:
    async with connect(port) as client:
        sent = "".join(f"GET /echo/{n} HTTP/1.1\r\nHost: localhost\r\n\r\n" for n in range(200))
        await client.send(sent)
        for number in range(200):
            assert (await client.answer())[2] == f"GET /echo/{number} ".encode()


@pytest.mark.parametrize(
    "head",
    [
        "GET /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /echo HTTP/1.0\r\n\r\n",
    ],
)
async def test_a_client_that_asks_for_it_gets_its_connection_closed(port: int, head: str) -> None:
    async with connect(port) as client:
        await client.send(head)
        assert await client.status() == 200
        assert await client.ended()


async def test_bodies_come_with_a_length_or_in_chunks(port: int) -> None:
    async with connect(port) as client:
        await client.send(POST + "Content-Length: 5\r\n\r\nhello")
        assert (await client.answer())[2] == b"POST /echo hello"
        await client.send(POST + "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n")
        await client.send("A\r\nlo, world!\r\n0\r\nTrailer: x\r\n\r\n")
        assert (await client.answer())[2] == b"POST /echo hello, world!"


async def test_a_client_that_expects_100_continue_gets_it(port: int) -> None:
    async with connect(port) as client:
        await client.send(POST + "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert await client.status() == 100
        await client.send("ok")
        assert (await client.answer())[2] == b"POST /echo ok"


async def test_a_client_that_asks_first_is_refused_before_it_sends_too_much(port: int) -> None:
    async with connect(port) as client:
        await client.send(POST + "Content-Length: 5000\r\nExpect: 100-continue\r\n\r\n")
        assert await client.status() == 413


async def test_head_and_empty_answers_have_no_body(port: int) -> None:
    async with connect(port) as client:
        await client.ask("HEAD /echo")
        status, headers, _ = await client.answer(head_only=True)
        assert (status, headers["content-length"]) == (200, "11")
        await client.ask("GET /empty")
        status, headers, _ = await client.answer()
        assert status == 204
        assert "content-length" not in headers


async def test_an_unknown_path_or_method_leaves_the_connection_open(port: int) -> None:
    async with connect(port) as client:
        await client.ask("GET /nothing/here")
        assert (await client.answer())[::2] == (404, b"no route for GET /nothing/here\n")
        await client.ask("DELETE /echo")
        status, headers, _ = await client.answer()
        assert (status, headers["allow"]) == (405, "get, head, post")
        await client.ask("GET /echo/")
        assert await client.status() == 200


async def test_a_path_of_very_many_segments_has_no_route(port: int) -> None:
    async with connect(port) as client:
        await client.ask("GET " + "/" * 900)
        assert await client.status() == 404


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("nonsense\r\n\r\n", 400),
        ("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /ä HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET /echo#x HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nA : b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: localhost\n\n", 400),
        (POST + "Content-Length: -1\r\n\r\n", 400),
        (POST + "Content-Length: 1_0\r\n\r\n", 400),
        (POST + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (POST + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (POST + "Content-Length: 4097\r\n\r\n" + "x" * 4097, 413),
        (POST + "Content-Length: 99999999999\r\n\r\n", 413),
        (POST + "Transfer-Encoding: chunked\r\n\r\nffffff\r\n" + "x" * 4097, 413),
        ("GET /" + "x" * 5000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nA: " + "x" * 5000 + "\r\n\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n" + "A: b\r\n" * 300 + "\r\n", 431),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n" + "A: b\r\n" * 110 + "\r\n", 400),
    ],
)
async def test_what_is_malformed_or_too_long_is_refused(port: int, sent: str, status: int) -> None:
    async with connect(port) as client:
        await client.send(sent)
        answer, headers, _ = await client.answer()
        assert (answer, headers["connection"]) == (status, "close")
        client.writer.write_eof()
        assert await client.ended()


@pytest.mark.parametrize("chunks", ["-5\r\n", "1\r\nabc\r\n", "x\r\n", "1;\n\r\na\r\n"])
async def test_malformed_chunks_end_the_connection(port: int, chunks: str) -> None:
    async with connect(port) as client:
        await client.send(POST + "Transfer-Encoding: chunked\r\n\r\n" + chunks)
        client.writer.write_eof()
        received = await client.reader.read()
        assert b" 200 " not in received


@pytest.mark.parametrize("character", ["\n", "\r", "\x00", "\x01", "\x7f", "\x80"])
@pytest.mark.parametrize("header", ["X-Name: a{}b: c", "X-Name: {}", "X-Na{}me: b"])
async def test_a_header_with_a_control_character_is_refused(
    port: int, header: str, character: str
) -> None:
    async with connect(port) as client:
        head = f"GET /echo HTTP/1.1\r\nHost: localhost\r\n{header.format(character)}\r\n\r\n"
        await client.send(head.encode("latin-1"))
        answer, headers, _ = await client.answer()
        assert (answer, headers["connection"]) == (400, "close")
        client.writer.write_eof()
        assert await client.ended()


async def test_a_reply_with_a_header_that_would_be_two_is_not_sent(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(port) as client:
        await client.ask("GET /split")
        status, headers, body = await client.answer()
        assert (status, body) == (500, b"internal error\n")
        assert "set-cookie" not in headers
        assert await client.ended()
    assert "HTTP request failed" in caplog.text


async def test_a_bug_in_a_handler_is_logged_and_not_shown(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(port) as client:
        await client.ask("GET /fail?secret=1")
        assert (await client.answer())[::2] == (500, b"internal error\n")
        assert await client.ended()
    [record] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert (record.getMessage(), vars(record)["path"]) == ("HTTP request failed", "/fail")
    assert "a bug" in caplog.text


async def test_a_client_that_has_sent_all_still_gets_its_reply(port: int) -> None:
    async with connect(port) as client:
        await client.ask("GET /echo")
        client.writer.write_eof()
        assert (await client.answer())[2] == b"GET /echo "
        assert await client.ended()


async def test_an_offer_to_upgrade_is_ignored(port: int) -> None:
    async with connect(port) as client:
        await client.ask("GET /echo", "Connection: upgrade", "Upgrade: websocket")
        assert await client.status() == 200
        await client.ask("GET /echo")
        assert await client.status() == 200


async def test_all_that_was_sent_before_the_end_is_answered(port: int) -> None:
    async with connect(port) as client:
        await client.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
        client.writer.write_eof()
        assert (await client.reader.read()).count(b"HTTP/1.1 200 OK") == 500


async def test_what_is_refused_twice_is_answered_once(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(port) as client:
        await client.ask(
            "GET /echo", "Connection: upgrade", "Upgrade: websocket", body="z" * 99_999
        )
        assert await client.status() == 200
        client.writer.write_eof()
        assert (await client.reader.read()).count(b"HTTP/1.1 4") <= 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
