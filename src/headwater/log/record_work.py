"""Work on the records of batches that leaves the event loop, and what it may hold in memory.

A few compressed kilobytes may hold gigabytes, and any client may send them. So whatever a broker
decompresses off its loop, for Produce and ListOffsets alike, passes one ``RecordWork``: it runs
``AT_ONCE`` jobs, and starts none that could take all of them above ``RECORD_WORK_BYTES``, counted
uncompressed. A job begins with little room; only if its records turn out to be larger is it run
again with four times as much.
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
"""Jobs that run at the same time."""
RECORD_WORK_BYTES: Final = 128 * 1024 * 1024
"""What all jobs together may hold; a larger one runs alone."""
FIRST_ROOM: Final = 64 * 1024
"""The room that a job gets at first, or four times the size of what it reads."""
GROWTH: Final = 4


class RecordWork:
    """Runs jobs in order of arrival, within the bounds above. One per broker."""

    def __init__(self, offload: Offload = in_thread, limit: int = RECORD_WORK_BYTES) -> None:
        self._offload = offload
        self._limit = limit
        self._used = 0
        self._running = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.walks_all = False
        """Whether ``walk`` and ``search`` are the compiled ones, for which no batch is too long."""
        self.walk: Walk = walk
        self.search: RecordSearch = search

    @property
    def used(self) -> int:
        """The bytes that running jobs may hold."""
        return self._used

    async def warm_up(self) -> None:
        """Load the compiled walk if the extra ``table`` is installed, off the loop."""
        try:
            kernel = await self._offload(_load_kernel)
        except ImportError:
            logger.info(
                "Of each batch the first records are checked; with the extra `table` all are: "
                "%s adds it",
                install_command("table"),
            )
            return
        except Exception:  # numba raises what it likes where it finds no place for its cache
            logger.warning("cannot load the check of all records", exc_info=True)
            return
        self.walk, self.search, self.walks_all = kernel.walk, kernel.search, True

    async def run(
        self, job: Callable[[int], T | None], size: int, most: int, *, copies: int = 1
    ) -> T:
        """What ``job`` returns for the first room that is not too small, for which it says None.

        ``size`` is that of what it reads, ``copies`` how many times it holds what it makes. Raises
        ``MessageTooLarge`` if ``most`` is too small. A job that has begun goes on, and is counted,
        if its caller is cancelled.
        """
        room = min(most, max(FIRST_ROOM, GROWTH * size))
        while True:
            result = await self._run_once(partial(job, room), room * copies)
            if result is not None:
                return result
            if room >= most:
                raise MessageTooLarge(f"the records of a batch are larger than {most} bytes")
            room = min(most, GROWTH * room)

    async def _run_once(self, job: Callable[[], T], size: int) -> T:
        size = min(size, self._limit)
        await self._take(size)
        try:
            work = asyncio.ensure_future(self._offload(job))
        except BaseException:
            self._give_back(size)
            raise
        work.add_done_callback(lambda _: self._give_back(size))
        return await asyncio.shield(work)

    async def _take(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self._used += size
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(size)
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove((size, turn))
                self._admit()
            raise

    def _fits(self, size: int) -> bool:
        return self._running < AT_ONCE and self._used + size <= self._limit

    def _give_back(self, size: int) -> None:
        self._used -= size
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._used += size
                self._running += 1
                turn.set_result(None)


def _load_kernel() -> ModuleType:
    from headwater.wire.batches import walk_kernel

    walk_kernel.warm_up()
    return walk_kernel
