"""A TCP proxy on loopback that cuts its connections when a test says so."""

import asyncio
from contextlib import suppress
from typing import Self


class Cuts:
    """Passes bytes on both ways, until ``swallow_answers`` or ``cut``."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._swallowing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()
        for writer in list(self._writers):
            with suppress(OSError):
                await writer.wait_closed()

    def swallow_answers(self) -> None:
        """Every connection ends with the first bytes that its server sends from here on."""
        self._swallowing = True

    def heal(self) -> None:
        self._swallowing = False

    def silence(self) -> None:
        """Pass nothing more on of the connections that stand now, and end none of them."""
        self._silent |= self._writers

    def cut(self) -> None:
        """End every connection now."""
        for writer in self._writers:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, server_writer}
        for work in (
            self._pass(reader, server_writer, answers=False),
            self._pass(server_reader, writer, answers=True),
        ):
            task = asyncio.create_task(work)
            self._tasks.add(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                if answers and self._swallowing:
                    break
                if writer in self._silent:
                    continue
                writer.write(data)
                await writer.drain()
        writer.close()
