"""A file that grows: an append costs one write and one sync, and no new name.

The file and its name are made durable before the first append returns. Every append has its own
range, so appends may overlap; a range that failed stays behind as bytes that nobody refers to.
"""

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable, Sequence

from headwater.objects.local.durable import Descriptor
from headwater.objects.local.vectors import write_all
from headwater.objects.store import Buffer

MODE = 0o644


Run = Callable[[Callable[[], None], str], Awaitable[None]]
"""Runs a blocking call in the executor, operating system errors turned into store errors."""


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
        """``create`` makes the file and its name durable; ``appended`` counts bytes."""
        self.key = key
        self.size = 0
        self._run = run
        self._create = create
        self._appended = appended
        self._file: Descriptor | None = None
        self._opening = asyncio.Lock()
        self._under_way = 0
        self._closed = False
        self._failed = False
        self._syncing = threading.Lock()

    async def append(self, parts: Sequence[Buffer]) -> int:
        position = self.size
        length = sum(memoryview(part).nbytes for part in parts)
        self.size += length
        self._under_way += 1
        try:
            file = await self._open()
            await self._run(lambda: self._append(file, parts, position), f"writing {self.key}")
        finally:
            self._under_way -= 1
            self._let_go()
        self._appended(length)
        return position

    async def close(self) -> None:
        """Let the file go, once the appends under way have ended."""
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        if self._closed and not self._under_way:
            self._file = None

    async def _open(self) -> Descriptor:
        async with self._opening:
            if self._file is None:
                await self._run(self._open_now, f"creating {self.key}")
            assert self._file is not None
            return self._file

    def _open_now(self) -> None:
        self._require_whole()
        try:
            self._file = self._create()
        except BaseException:
            self._failed = True
            raise

    def _append(self, file: Descriptor, parts: Sequence[Buffer], position: int) -> None:
        self._require_whole()
        try:
            write_all(file.number, parts, position)
            # One at a time: the kernel tells an error of the whole file to the first that asks,
            # and the next one would take its own lost pages for written.
            with self._syncing:
                self._require_whole()
                self._sync(file)
        except BaseException:
            # The kernel may report a failed sync once only: nothing is ever synced here again.
            self._failed = True
            raise

    def _sync(self, file: Descriptor) -> None:
        try:
            os.fdatasync(file.number)
        except BaseException:
            self._failed = True  # before the next one's turn
            raise

    def _require_whole(self) -> None:
        if self._failed:
            raise OSError(errno.EIO, "an earlier write of this file failed")
