"""A metadata store for code that does not run on an event loop."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from headwater.clock import SystemClock
from headwater.meta.store import MetadataStore
from headwater.meta.urls import open_store

T = TypeVar("T")


class StoreThread:
    """An open store with its own event loop in a thread; any other thread may call it.

    It opens its own connections, so that a caller that blocks another event loop does not wait
    for itself.
    """

    def __init__(self, url: str) -> None:
        """Raises what ``open_store`` raises."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="headwater-metadata", daemon=True
        )
        self._thread.start()
        try:
            self.meta: MetadataStore = self.run(open_store(url, SystemClock()))
        except BaseException:
            self._stop()
            raise

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that uses ``meta``. Blocks."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Close the store and end the thread; cancels the calls of other threads."""
        try:
            self.run(self._finish())
        finally:
            self._stop()

    async def _finish(self) -> None:
        await self.meta.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
