"""Which ``Host`` the server answers to: a web page must not reach it by DNS rebinding."""

import pytest

from headwater.http.hosts import AllowedHosts
from tests.support.http.raw import connect, listening


async def status(port: int, host: str) -> tuple[int, bytes]:
    async with connect(port) as client:
        await client.send(f"GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n")
        answer, _, body = await client.answer()
        return answer, body


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8181", "127.0.0.1:1", "[::1]", "10.2.3.4", "lake.example.:80"],
)
async def test_own_names_and_addresses_are_answered(host: str) -> None:
    async with listening(hosts=AllowedHosts.of(["Lake.example"])) as port:
        assert (await status(port, host))[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "lake.example.evil.example", "localhost@evil.example", "127.0.0.1.x.y", ""],
)
async def test_other_names_are_refused_with_the_setting_to_change(host: str) -> None:
    async with listening(hosts=AllowedHosts.of(["lake.example"])) as port:
        answer, body = await status(port, host)
        assert answer == 421
        assert b"http.allowed_hosts" in body
        assert body.count(b"\n") == 1


async def test_every_name_is_answered_if_that_is_set() -> None:
    async with listening(hosts=AllowedHosts.of(["*"])) as port:
        assert (await status(port, "evil.example"))[0] == 200
