"""The listening side: accepts connections, counts them, and stops without cutting answers off."""

import asyncio
import errno
import logging
import socket

from headwater.broker.apis import APIS
from headwater.broker.connection import Connection
from headwater.broker.gathering import Gathering
from headwater.broker.loop_delay import LoopDelay
from headwater.broker.room import RoomGate
from headwater.broker.services import Services
from headwater.errors import ConfigurationError

log = logging.getLogger(__name__)

_BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Clients wait until it is served.

    Raises ``ConfigurationError`` with the one line that says what is wrong.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # What it accepts inherits this: a client that vanished is noticed at last.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigurationError(_reason(host, port, error)) from error
    listener.setblocking(False)  # noqa: FBT003 - the socket's own method
    return listener


def _reason(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use: stop what listens there or choose another port"
    if error.errno == errno.EACCES:
        return f"port {port} on {host} may not be used: choose one above 1023"
    return f"cannot listen on {host}:{port}: {error.strerror or error}"


class Server:
    """Serves one listening socket, which it owns from now on."""

    def __init__(self, services: Services, listener: socket.socket) -> None:
        self._services = services
        self._listener = listener
        self._gate = RoomGate(services.engine)
        self._gathering = Gathering(services.engine)
        self._delay = LoopDelay(services.metrics)
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._listener.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Begin to accept."""
        loop = asyncio.get_running_loop()
        self._delay.start()
        self._server = await loop.create_server(self._accept, sock=self._listener)

    def _accept(self) -> Connection:
        connection = Connection(
            self._services, APIS, self._gate, self._gathering, self._delay, self._closed
        )
        self._connections.add(connection)
        self._services.metrics.connections.set(len(self._connections))
        return connection

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._services.metrics.connections.set(len(self._connections))

    async def stop(self) -> None:
        """Accept no more, let requests under way finish within a bound, then close."""
        if self._server is not None:
            self._server.close()
        waiting = [asyncio.ensure_future(one.finish()) for one in list(self._connections)]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._services.settings.stop_timeout_s)
            if late:
                log.warning("%d connections did not finish in time and are cut", len(late))
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        self._delay.stop()
        await self._gate.close()
