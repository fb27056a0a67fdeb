"""The Kafka server: accepts connections, counts and limits them, and stops gracefully."""

import asyncio
import errno
import logging
import socket
from collections.abc import Sequence
from functools import partial
from heapq import nlargest
from math import inf
from typing import Final

from headwater.broker.apis import APIS
from headwater.broker.loop_delay import LoopDelay
from headwater.broker.network.acceptor import Acceptor
from headwater.broker.network.backpressure import BackpressureGate
from headwater.broker.network.client_session import ClientSession
from headwater.broker.network.connection import Connection
from headwater.broker.network.connection_limits import (
    AddressCounts,
    ConnectionLimits,
    allowed_descriptors,
    connection_limits,
)
from headwater.broker.network.listener import Listener
from headwater.broker.network.read_coalescing import ReadCoalescer
from headwater.broker.network.receive_buffer import shared_buffer
from headwater.broker.services import Services
from headwater.errors import ConfigurationError

log = logging.getLogger(__name__)

_BACKLOG = 4096
"""Connections that may wait to be accepted; the kernel may allow fewer (``somaxconn``)."""
EVICTABLE_SECONDS: Final = 5.0
"""At the connection limit, a connection that was idle for this long may be closed."""
SWEEP_SECONDS: Final = 10.0
"""Time between two checks for idle connections."""
RELEASE_SECONDS: Final = 1.0
"""A connection that was idle for this long frees its buffer at the next sweep."""
WARNING_SECONDS: Final = 10.0
"""Least time between two warnings about refused connections."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free port. Clients wait until a ``Server`` serves it.

    Raises ``ConfigurationError`` if the address is in use, or cannot be used.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Accepted sockets inherit this: the kernel notices a client that vanished.
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
    """Serves listeners, and owns their sockets."""

    def __init__(self, services: Services, listeners: Sequence[Listener]) -> None:
        self._services = services
        self._listeners = listeners
        self._gate = BackpressureGate(services.backpressure)
        self._coalescer = ReadCoalescer(services.backpressure)
        self._delay = LoopDelay(services.metrics)
        self._shared = shared_buffer()
        self._descriptors = allowed_descriptors()
        self._connections: dict[Connection, str] = {}
        """Each open connection with its client's address."""
        self._addresses = AddressCounts()
        self._opening: set[asyncio.Task[None]] = set()
        self._acceptors: list[Acceptor] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._refused_at = -inf

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return int(self._listeners[0].accepting.getsockname()[1])

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Begin to accept."""
        self._delay.start()
        for listener in self._listeners:
            take = partial(self._take, listener)
            acceptor = Acceptor(listener.accepting, has_room=self._has_room, take=take)
            self._acceptors.append(acceptor)
            acceptor.start()
        self._sweep_later()

    @property
    def _limits(self) -> ConnectionLimits:
        services = self._services
        layers = services.dynamic.brokers.layers
        return connection_limits(services.settings, layers, self._descriptors)

    def _has_room(self) -> bool:
        """Whether another connection is allowed. At the limit, close the longest idle ones."""
        if len(self._connections) < self._limits.total:
            return True
        # Evict 1 % at a time: each search looks at every connection.
        count = len(self._connections) // 100 + 1
        for connection in nlargest(count, self._connections, key=Connection.idle_seconds):
            if connection.idle_seconds() >= EVICTABLE_SECONDS and connection.evictable:
                self._services.metrics.connections_cut["evicted"].inc()
                connection.abort()
        return False

    def _take(self, listener: Listener, client: socket.socket, address: str) -> None:
        if not self._addresses.add(address, self._limits.per_address):
            client.close()
            self._refused(address)
            return
        connection = Connection(
            self._services,
            ClientSession(listener.name, self._services.settings.max_request_bytes),
            APIS,
            self._gate,
            self._coalescer,
            self._delay,
            self._shared,
            self._closed,
        )
        self._connections[connection] = address
        self._services.metrics.connections.set(len(self._connections))
        opening = asyncio.get_running_loop().create_task(self._open(client, connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, client: socket.socket, connection: Connection) -> None:
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        except OSError:  # the client has gone
            client.close()
            self._closed(connection)

    def _closed(self, connection: Connection) -> None:
        address = self._connections.pop(connection, None)
        if address is None:
            return
        self._addresses.remove(address)
        self._services.metrics.connections.set(len(self._connections))
        for acceptor in self._acceptors:
            acceptor.connection_closed()

    def _refused(self, address: str) -> None:
        self._services.metrics.connections_cut["per_ip"].inc()
        now = asyncio.get_running_loop().time()
        if now - self._refused_at >= WARNING_SECONDS:
            self._refused_at = now
            log.warning(
                "Refused a connection: its address has max.connections.per.ip already",
                extra={"address": address},
            )

    def _sweep_later(self) -> None:
        delay = min(SWEEP_SECONDS, self._services.settings.connections_max_idle_ms / 2000)
        self._sweeping = asyncio.get_running_loop().call_later(delay, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle for too long, and free buffers of idle ones."""
        max_idle = self._services.settings.connections_max_idle_ms / 1000
        for connection in list(self._connections):
            connection.notice_reading()
            idle = connection.idle_seconds()
            if idle >= max_idle:
                self._services.metrics.connections_cut["idle"].inc()
                connection.abort()
            elif idle >= RELEASE_SECONDS:
                connection.release_buffer()
        self._sweep_later()

    async def stop(self) -> None:
        """Accept no more, wait up to ``stop_timeout_s`` for requests in flight, then close."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for acceptor in self._acceptors:
            acceptor.stop()
        await asyncio.gather(*self._opening, return_exceptions=True)
        timeout = self._services.settings.stop_timeout_s
        finishing = [asyncio.ensure_future(one.finish()) for one in list(self._connections)]
        if finishing:
            _, late = await asyncio.wait(finishing, timeout=timeout)
            if late:
                log.warning(
                    "Closing connections with unanswered requests: the stop timeout is over",
                    extra={"connections": len(late), "timeout_seconds": timeout},
                )
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        self._delay.stop()
        await self._gate.close()
