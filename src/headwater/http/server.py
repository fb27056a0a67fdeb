"""The server: mounts on one port."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from aiohttp import web

from headwater.http.connections import Connections, Phase
from headwater.http.hosts import AllowedHosts
from headwater.http.limits import HttpLimits
from headwater.http.mounts import Mount, Refusal
from headwater.http.protocol import HttpConnection
from headwater.http.requests import RequestServer

logger = logging.getLogger(__name__)

_CLEANUP_S = 0.1
"""aiohttp waits this long for connections that are closed already."""


class HttpServer:
    """Serves mounts on one port, to the hosts that are allowed."""

    def __init__(
        self, mounts: Sequence[Mount], hosts: AllowedHosts, limits: HttpLimits | None = None
    ) -> None:
        self._limits = limits or HttpLimits()
        self._connections = Connections(self._limits.connections)
        self._requests = RequestServer(mounts, hosts, keep_alive=self._limits.keep_alive)
        self._refusal = mounts[0].refusal
        self._max_body_bytes = max(mount.max_body_bytes for mount in mounts)
        self._runner: web.ServerRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; raises ``OSError`` if that is not possible. Returns the bound port."""
        connection_parts = (self._connections, self._limits, self._refusal, self._max_body_bytes)
        server = _Server(self._requests, connection_parts)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=_CLEANUP_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        bound: int = runner.addresses[0][1]
        return bound

    async def close(self) -> None:
        """Accept no more connections, and give requests in flight ``stop_s`` to finish."""
        runner = self._runner
        if runner is None:
            return
        for site in list(runner.sites):
            await site.stop()
        self._requests.keep_alive = False
        self._connections.abort(Phase.SILENT, Phase.CLOSING)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.stop_s):
                await self._connections.wait_until_empty()
        self._connections.abort(*Phase)
        await self._requests.cancel()
        await runner.cleanup()
        self._runner = None


class _Server(web.Server):
    """Makes the connections."""

    def __init__(
        self,
        requests: RequestServer,
        connection_parts: tuple[Connections, HttpLimits, Refusal, int],
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(requests.serve, request_factory=partial(web.Request, loop=loop), loop=loop)
        self._connection_parts = connection_parts

    def __call__(self) -> HttpConnection:
        return HttpConnection(self, *self._connection_parts)
