"""Wakes the other processes after a commit, by a datagram to the socket of each.

A lost wake-up only delays a watch by one polling interval. So nothing is sent twice, and nothing to
a full socket: its process has not read the wake-ups before.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LISTED_SECONDS = 0.25
RECENT_NS = 100_000_000
SUFFIX = ".sock"


class SqlitePeers:
    """This process's socket in the shared directory, and the sockets of the others."""

    def __init__(self, directory: Path, woken: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = woken
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(self._address(self._name))
        self._loop.add_reader(self._socket.fileno(), self._receive)
        self._others: list[str] = []
        self._listed = -LISTED_SECONDS

    def wake(self) -> None:
        """Tell every other process that there is a new revision."""
        now = self._loop.time()
        if now - self._listed >= LISTED_SECONDS:
            self._listed = now
            self._others = [
                name
                for name in os.listdir(self._directory)  # noqa: PTH208 - by descriptor
                if name.endswith(SUFFIX) and name != self._name
            ]
        for name in self._others:
            try:
                self._socket.sendto(b"", self._address(name))
            except ConnectionRefusedError:  # Its process died.
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._directory)
                self._listed = -LISTED_SECONDS
            except OSError:  # It is full, was just closed, or belongs to another user.
                continue

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)
        os.close(self._directory)

    def _address(self, name: str) -> str:
        # The address of a socket has at most 107 bytes; the path of a directory may be longer.
        return f"/proc/self/fd/{self._directory}/{name}"

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
                self._woken()


class SqliteJournal:
    """Checks cheaply, without a lock or a thread, whether another process may have committed."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._seen: tuple[int, int] | None = None

    def touched(self) -> bool:
        """False only if nothing was written to the journal since the last call."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - twenty times a second
        except FileNotFoundError:
            return True
        mark = (found.st_size, found.st_mtime_ns)
        changed = mark != self._seen
        self._seen = mark
        # The clock of file times advances in steps of milliseconds, so two writes may share a time.
        return changed or abs(time.time_ns() - found.st_mtime_ns) < RECENT_NS
