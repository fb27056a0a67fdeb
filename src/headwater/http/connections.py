"""Which connections are open, and which one is closed to make room for another."""

import asyncio
from enum import Enum, auto
from typing import Protocol


class Phase(Enum):
    """What a connection is doing."""

    SILENT = auto()
    """Nothing of a request has arrived."""
    RECEIVING = auto()
    ANSWERING = auto()
    """A handler is running: the only phase in which a connection is never closed for another."""
    SENDING = auto()
    CLOSING = auto()
    """The last reply has been sent; what the client still sends is dropped."""


class OpenConnection(Protocol):
    """An open connection, as ``Connections`` needs it."""

    def abort(self) -> None:
        """Close it at once; ``Connections.remove`` follows, now or later."""


class Connections:
    """The open connections of one server, at most ``limit`` that are served."""

    _EVICTION_ORDER = (Phase.SILENT, Phase.RECEIVING, Phase.SENDING)

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._phases: dict[OpenConnection, Phase] = {}
        """The connection whose phase changed last comes last."""
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._phases)

    def admit(self, connection: OpenConnection) -> bool:
        """Add a connection. False if all others are being answered, so that it must be refused.

        If the limit is reached, the connection that has been silent for longest is closed. If
        none is silent, it is the one that has been receiving or sending for longest.
        """
        served = sum(phase is not Phase.CLOSING for phase in self._phases.values())
        admitted = served < self._limit or self._evict(*self._EVICTION_ORDER)
        if len(self._phases) >= 2 * self._limit:
            self._evict(Phase.CLOSING)
        self.move(connection, Phase.SILENT if admitted else Phase.CLOSING)
        return admitted

    def move(self, connection: OpenConnection, phase: Phase) -> None:
        """Note that a connection has entered a phase."""
        self._phases.pop(connection, None)
        self._phases[connection] = phase
        self._empty.clear()

    def remove(self, connection: OpenConnection) -> None:
        self._phases.pop(connection, None)
        if not self._phases:
            self._empty.set()

    def abort(self, *phases: Phase) -> None:
        """Close every connection that is in one of the phases."""
        for connection in [one for one, phase in self._phases.items() if phase in phases]:
            self.remove(connection)
            connection.abort()

    async def wait_until_empty(self) -> None:
        """Return when the last connection is closed."""
        await self._empty.wait()

    def _evict(self, *phases: Phase) -> bool:
        for wanted in phases:
            for connection, phase in self._phases.items():
                if phase is wanted:
                    self.remove(connection)
                    connection.abort()
                    return True
        return False
