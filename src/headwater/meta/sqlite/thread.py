"""A thread that runs blocking calls in order, cheaper than an executor.

Under a busy event loop, taking the interpreter lock costs a thread far more than the call itself.
So a job costs one queue entry to the thread and one callback to the loop.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from headwater.errors import StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")


class SqliteThread:
    """Runs jobs one after another on its own thread, and returns results on the caller's loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, job: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[R]:
        """Run ``job`` on the thread, unless its future is cancelled before its turn."""
        return self.run_then(None, job, *args, **kwargs)

    def run_then(
        self,
        then: Callable[[R], None] | None,
        job: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> asyncio.Future[R]:
        """Like ``run``, and call ``then`` on the loop before the awaiting task continues."""
        if self._stopping:
            raise StoreUnavailable("the metadata store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()

        def turn() -> None:
            if future.cancelled():
                return
            try:
                result = job(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised to the caller
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_finish, future, result, then)

        self._jobs.put(turn)
        return future

    async def stop(self, last: Callable[[], None]) -> None:
        """Run the queued jobs, then ``last``, and end the thread."""
        if self._stopping:
            return
        done = self.run(last)
        self._stopping = True
        self._jobs.put(None)
        await done
        self._thread.join()

    def _work(self) -> None:
        while (turn := self._jobs.get()) is not None:
            try:
                turn()
            except RuntimeError:  # The caller's loop was closed, so the result has no receiver.
                if self._loop.is_closed():
                    return


def _finish(future: asyncio.Future[Any], result: Any, then: Callable[[Any], None] | None) -> None:
    if not future.done():
        future.set_result(result)
    if then is not None:
        then(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
