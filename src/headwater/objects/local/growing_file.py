"""A file that grows: an append costs one write and one fdatasync, but no new file name.

The file and its name are durable before the first append returns. Each append has its own range of
the file, so appends may run concurrently. The range of a failed append is never referred to.
"""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence

from headwater.objects.local.durable_directories import Descriptor
from headwater.objects.local.vectored_write import write_all
from headwater.objects.store import Buffer

MODE = 0o644


Run = Callable[[Callable[[], None], str], Awaitable[None]]
"""Runs a blocking call in the executor and translates ``OSError`` into a ``StoreError``."""


class GrowingFile:
    """See ``headwater.objects.store.GrowingObject``."""

    def __init__(
        self,
        key: str,
        *,
        run: Run,
        create: Callable[[], Descriptor],
        appended: Callable[[int], None],
    ) -> None:
        """``create`` creates the file durably; ``appended`` gets the size of each append."""
        self.key = key
        self.size = 0
        self._run = run
        self._create = create
        self._appended = appended
        self._file: Descriptor | None = None
        self._opening = asyncio.Lock()
        self._running_appends = 0
        self._closed = False
        self._failed = False
        self._syncing = threading.Lock()

    async def append(self, parts: Sequence[Buffer]) -> int:
        position = self.size
        length = sum(memoryview(part).nbytes for part in parts)
        self.size += length
        self._running_appends += 1
        try:
            file = await self._open()
            await self._run(lambda: self._append(file, parts, position), f"writing {self.key}")
        finally:
            self._running_appends -= 1
            self._close_if_idle()
        self._appended(length)
        return position

    async def close(self) -> None:
        """Close the file when the running appends have ended."""
        self._closed = True
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._closed and not self._running_appends:
            self._file = None

    async def _open(self) -> Descriptor:
        async with self._opening:
            if self._file is None:
                await self._run(self._open_now, f"creating {self.key}")
            assert self._file is not None
            return self._file

    def _open_now(self) -> None:
        self._check_not_failed()
        try:
            self._file = self._create()
        except BaseException:
            self._failed = True
            raise

    def _append(self, file: Descriptor, parts: Sequence[Buffer], position: int) -> None:
        self._check_not_failed()
        try:
            write_all(file.number, parts, position)
            # One fdatasync at a time: the kernel reports an error of the file to only one of the
            # callers, and another one would treat its lost pages as written.
            with self._syncing:
                self._check_not_failed()
                self._sync(file)
        except BaseException:
            # The kernel may report a failed sync only once, so this file is not used again.
            self._failed = True
            raise

    def _sync(self, file: Descriptor) -> None:
        try:
            os.fdatasync(file.number)
        except BaseException:
            self._failed = True  # before the lock is released
            raise

    def _check_not_failed(self) -> None:
        if self._failed:
            raise OSError(errno.EIO, "an earlier write of this file failed")
