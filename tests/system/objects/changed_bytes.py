"""One byte of a body changes on its way to a server, which must not keep it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from urllib.parse import urlsplit

import pytest

from headwater.errors import ObjectNotFound
from headwater.objects.remote.s3 import open_s3
from headwater.objects.retrying import TransientFailure
from peers.s3_server import S3Server

END_OF_HEAD = b"\r\n\r\n"
SOMEWHERE = 5_000
"""Which byte of the body, from its beginning."""


class ChangingProxy:
    """Passes everything on to ``address`` as it is, but for that byte."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self.changed = 0
        self.head = b""
        """Of the request that was changed, and what its body begins with."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, answers = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(self._send(reader, answers), _copy(there, writer))
        except ConnectionError:
            pass
        finally:
            answers.close()
            writer.close()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = b""
        while data := await reader.read(65_536):
            before, seen = len(seen), seen + data
            at = seen.find(END_OF_HEAD) + len(END_OF_HEAD) + SOMEWHERE
            if not self.changed and END_OF_HEAD in seen and before <= at < len(seen):
                self.changed += 1
                self.head = seen[seen.rfind(b"PUT ", 0, at) : at]  # a connection has several
                other = bytes([data[at - before] ^ 1])
                data = data[: at - before] + other + data[at - before + 1 :]
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def changing(address: str) -> AsyncIterator[tuple[ChangingProxy, str]]:
    """The proxy before ``address``, and its own."""
    proxy = ChangingProxy(address)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def refuses_what_changed(server: S3Server, bucket: str, checksum: str) -> None:
    """Nothing is kept, the error may be retried, and the second attempt is."""
    data = Random(3).randbytes(50_000)
    async with changing(server.address) as (proxy, address):
        url = server.url(bucket).replace(server.address, address)
        store = open_s3(urlsplit(url + (f"&checksum={checksum}" if checksum else "")))
        await store.put("small", [b"1"])  # without a checksum's name, it is asked what is checked
        with pytest.raises(TransientFailure, match="its bytes were corrupted in transit"):
            await store.put("wal/1.wo", [data[:10], data[10:]])
        assert proxy.changed == 1
        unsigned = checksum in ("", "CRC64NVME")
        assert (b"UNSIGNED-PAYLOAD" in proxy.head) == unsigned
        with pytest.raises(ObjectNotFound):
            await store.get("wal/1.wo")
        await store.put("wal/1.wo", [data[:10], data[10:]])
        assert await store.get("wal/1.wo") == data
