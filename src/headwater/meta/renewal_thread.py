"""A thread with its own event loop, for calls that must not wait for the main event loop.

Python code that blocks the main loop does not block this one, because the interpreter switches
threads every few milliseconds. Native code that does not release the GIL blocks both.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class RenewalThread:
    """The first call of ``start`` starts the thread; a store without sessions has none."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run ``work`` on the thread's loop; cancelling the future cancels ``work``."""
        if self._loop is None:
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="headwater-lease", daemon=True
            )
            self._thread.start()
        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def stop(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel the tasks of the thread's loop, run ``last`` on it, and end the thread."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end(last), self._loop)
        await asyncio.to_thread(self._thread.join)
        self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _end(last: Callable[[], Awaitable[None]] | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        if last is not None:
            await last()
    finally:
        asyncio.get_running_loop().stop()
