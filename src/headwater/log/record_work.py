"""Work on the records of batches off the event loop, within a memory limit.

A few compressed kilobytes may expand to gigabytes, and any client may send them. So all
decompression off the event loop, for Produce and ListOffsets, goes through one ``RecordWork``. It
runs ``AT_ONCE`` jobs, and all jobs together may use ``RECORD_WORK_BYTES`` of uncompressed data. A
job starts with a small memory limit. If its records are larger, it runs again with four times the
limit.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Final, TypeVar

from headwater.errors import MessageTooLarge
from headwater.extras import install_command
from headwater.log.read.parquet.source import Offload, in_thread
from headwater.wire.batches.record_walk import RecordSearch, Walk, search, walk

logger = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE: Final = 2
"""Jobs that run concurrently."""
RECORD_WORK_BYTES: Final = 128 * 1024 * 1024
"""Uncompressed bytes of all jobs together; a larger job runs alone."""
FIRST_LIMIT: Final = 64 * 1024
"""The first limit of a job, unless four times its input is more."""
GROWTH: Final = 4


class RecordWork:
    """Runs jobs in order of arrival within these limits. One per broker."""

    def __init__(self, offload: Offload = in_thread, limit: int = RECORD_WORK_BYTES) -> None:
        self._offload = offload
        self._limit = limit
        self._used = 0
        self._running = 0
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.walks_all = False
        """Whether ``walk`` and ``search`` are compiled; then every record of a batch is checked."""
        self.walk: Walk = walk
        self.search: RecordSearch = search

    @property
    def used(self) -> int:
        """The limits of all running jobs together."""
        return self._used

    async def warm_up(self) -> None:
        """Load the compiled walk if the extra ``table`` is installed, off the loop."""
        try:
            kernel = await self._offload(_load_kernel)
        except ImportError:
            logger.info(
                "Only the first records of each batch are checked; the extra `table` checks all",
                extra={"install": install_command("table")},
            )
            return
        except Exception:  # numba may raise anything if it cannot write its cache
            logger.warning("Cannot load the compiled check of records", exc_info=True)
            return
        self.walk, self.search, self.walks_all = kernel.walk, kernel.search, True

    async def run(
        self, job: Callable[[int], T | None], size: int, max_bytes: int, *, copies: int = 1
    ) -> T:
        """Call ``job`` with growing limits until it does not return None, and return its result.

        ``size`` is the size of its input, and ``copies`` how often it holds its output in memory.
        Raises ``MessageTooLarge`` if it returns None for ``max_bytes``. If the caller is cancelled,
        a running job continues and is counted.
        """
        limit = min(max_bytes, max(FIRST_LIMIT, GROWTH * size))
        while True:
            result = await self._run_once(partial(job, limit), limit * copies)
            if result is not None:
                return result
            if limit >= max_bytes:
                raise MessageTooLarge(f"the records of a batch are larger than {max_bytes} bytes")
            limit = min(max_bytes, GROWTH * limit)

    async def _run_once(self, job: Callable[[], T], size: int) -> T:
        size = min(size, self._limit)
        await self._acquire(size)
        try:
            work = asyncio.ensure_future(self._offload(job))
        except BaseException:
            self._release(size)
            raise
        work.add_done_callback(lambda _: self._release(size))
        return await asyncio.shield(work)

    async def _acquire(self, size: int) -> None:
        if not self._queue and self._fits(size):
            self._used += size
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(size)
            else:
                with contextlib.suppress(ValueError):
                    self._queue.remove((size, turn))
                self._admit()
            raise

    def _fits(self, size: int) -> bool:
        return self._running < AT_ONCE and self._used + size <= self._limit

    def _release(self, size: int) -> None:
        self._used -= size
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._fits(self._queue[0][0]):
            size, turn = self._queue.popleft()
            if not turn.done():
                self._used += size
                self._running += 1
                turn.set_result(None)


def _load_kernel() -> ModuleType:
    from headwater.wire.batches import walk_kernel

    walk_kernel.warm_up()
    return walk_kernel
