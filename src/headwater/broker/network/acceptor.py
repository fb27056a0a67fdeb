"""Accepts connections from a listening socket while the connection limits allow it.

Further connections stay in the kernel's backlog, and their clients wait. If the process has no
file descriptor left, this is logged once; it tries again when a connection closes, or after
``RETRY_SECONDS``.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN: Final = 64
RETRY_SECONDS: Final = 1.0
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """``has_room`` says whether another connection is allowed; ``take`` gets it and owns it."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        has_room: Callable[[], bool],
        take: Callable[[socket.socket, str], None],
    ) -> None:
        self._listener = listener
        self._has_room = has_room
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._accepting = False
        self._stopped = False
        self._retry: asyncio.TimerHandle | None = None
        self._exhausted = False

    def start(self) -> None:
        self._resume()

    def stop(self) -> None:
        """Accept no more, and refuse the connections in the kernel's backlog."""
        self._stopped = True
        self._pause()
        if self._retry is not None:
            self._retry.cancel()
        self._listener.close()

    def connection_closed(self) -> None:
        """Another connection may be accepted."""
        if self._retry is not None:
            self._resume()

    def _resume(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not self._accepting and not self._stopped:
            self._accepting = True
            self._loop.add_reader(self._listener.fileno(), self._accept_some)

    def _pause(self) -> None:
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._listener.fileno())

    def _wait(self) -> None:
        self._pause()
        self._retry = self._loop.call_later(RETRY_SECONDS, self._resume)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._has_room():
                self._wait()
                return
            try:
                client, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._report(error)
                    self._wait()
                    return
                continue  # this client closed before it was accepted
            self._exhausted = False
            client.setblocking(False)  # noqa: FBT003 - the socket's own method
            self._take(client, address[0] if isinstance(address, tuple) else "")

    def _report(self, error: OSError) -> None:
        if not self._exhausted:
            self._exhausted = True
            log.error(
                "Cannot accept more connections: raise the limit of open files (ulimit -n), "
                "or lower max.connections",
                extra={"error": error.strerror},
            )
