"""Waking the other processes after a commit, by a datagram to each one's socket.

A lost wake-up costs a watch one polling interval and nothing else, so nothing is sent twice
and a full socket is left alone: its owner has a wake-up waiting already.
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
    """This process's socket in the shared directory, and those of the others."""

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
            except ConnectionRefusedError:  # its process died and left it
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self._directory)
                self._listed = -LISTED_SECONDS
            except OSError:  # full, closed a moment ago, or not ours to write to
                continue

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._directory)
        os.close(self._directory)

    def _address(self, name: str) -> str:
        # A socket's address has 107 bytes at most; a data directory's path may have more.
        return f"/proc/self/fd/{self._directory}/{name}"

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
                self._woken()


class SqliteJournal:
    """Tells cheaply, without a lock or a thread, whether someone may have committed."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}-wal"
        self._seen: tuple[int, int] | None = None

    def touched(self) -> bool:
        """False only where nothing was written to the journal since the last call."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - twenty times a second
        except FileNotFoundError:
            return True
        mark = (found.st_size, found.st_mtime_ns)
        changed = mark != self._seen
        self._seen = mark
        # A file's time moves in ticks of some milliseconds: two writes may share one.
        return changed or abs(time.time_ns() - found.st_mtime_ns) < RECENT_NS
