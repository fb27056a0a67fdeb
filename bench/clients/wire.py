"""A client of the bare protocol on asyncio: one connection, any number of requests under way.

It makes no thread and keeps no timer, so that hundreds of them in one process are not what is
measured.
"""

import asyncio
import struct
import time
from collections import deque
from typing import Any, cast

from kio.index import load_response_schema
from kio.serial import entity_reader

from tests.support.broker.running import request_frame

ANSWER_SECONDS = 120.0
LENGTH = struct.Struct(">i")


class BenchConnection(asyncio.Protocol):
    """Answers come in the order of the requests, as Kafka promises."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._waiting: deque[asyncio.Future[tuple[bytes, float]]] = deque()
        self._buffer = bytearray()
        self._correlation = 0

    @classmethod
    async def open(cls, bootstrap: str) -> "BenchConnection":
        host, _, port = bootstrap.rpartition(":")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, int(port))
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        received = time.perf_counter()
        self._buffer += data
        while len(self._buffer) >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer)
            if len(self._buffer) < LENGTH.size + length:
                return
            frame = bytes(self._buffer[LENGTH.size : LENGTH.size + length])
            del self._buffer[: LENGTH.size + length]
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result((frame, received))

    def connection_lost(self, exc: Exception | None) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(exc or ConnectionResetError("the server closed"))

    async def call(self, api: int, version: int, **fields: Any) -> Any:
        self._correlation += 1
        frame = request_frame(api, version, self._correlation, **fields)
        async with asyncio.timeout(ANSWER_SECONDS):
            answer, _ = await self.send(frame)
        return parse(api, version, answer)

    def send(self, frame: bytes) -> "asyncio.Future[tuple[bytes, float]]":
        """Write a whole frame; its answer, and when it came by the performance counter."""
        assert self._transport is not None
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._transport.write(frame)
        return waiting

    def close(self) -> None:
        assert self._transport is not None
        self._transport.abort()


def parse(api: int, version: int, frame: bytes) -> Any:
    schema: Any = load_response_schema(api, version)
    _, size = entity_reader(schema.__header_schema__)(frame, 0)
    answer, _ = entity_reader(schema)(frame, size)
    return answer
