"""A server that plays a bucket, where a real one cannot be made to say or show something."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CannedServer:
    """Gives its answers (status and S3 error code) in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = [(200, "")]
        self.requests: list[str] = []
        self.heads: list[str] = []
        self.under_way = 0
        self.most_under_way = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if found := re.search(r"content-length: (\d+)", head, re.IGNORECASE):
            await reader.readexactly(int(found[1]))
        self.requests.append(head.partition(" ")[0])
        self.heads.append(head.lower())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0.005)
        self.under_way -= 1
        status, code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        body = f"<Error><Code>{code}</Code></Error>" if code else ""
        lines = [
            f"HTTP/1.1 {status} x",
            "ETag: e",
            "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        writer.write("\r\n".join([*lines, "", body]).encode())
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def canned() -> AsyncIterator[tuple[CannedServer, str]]:
    """A server and the URL of a bucket that it plays."""
    server = CannedServer()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield server, f"s3://bucket?endpoint=http://127.0.0.1:{port}&region=us-east-1"
