"""A server for the tests of this folder."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from aiohttp import http_parser, http_writer

from tests.support.http.raw import listening


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Both kinds of loop: a broker's, and the one of other tests."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with listening() as port:
        yield port


@pytest.fixture(params=["native", "python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of aiohttp's two parsers and serialisers, because an installation may have only one."""
    if request.param == "native":
        assert http_parser.HttpRequestParser is http_parser.HttpRequestParserC
        return
    monkeypatch.setattr("aiohttp.web_protocol.HttpRequestParser", http_parser.HttpRequestParserPy)
    monkeypatch.setattr(http_writer, "_serialize_headers", http_writer._py_serialize_headers)
