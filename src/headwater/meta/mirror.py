"""An up-to-date copy in memory of the values under one prefix of the metadata store."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from headwater.errors import StoreError, WatchTrimmed
from headwater.meta.store import KeyChange, MetadataStore, prefix_end
from headwater.work_budget import TURN_ELEMENTS

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = 0.1
"""Shortest time between two calls of ``changed`` if there are many values: each call reads all."""


class Mirror:
    """The values under a prefix. Call ``load``, then keep ``run`` in a task.

    ``changed`` is called with all values, by key without the prefix, whenever one has changed. The
    copy may lag behind the store, but changes are never seen out of order. If there are more than
    ``TURN_ELEMENTS`` values, one call of ``changed`` covers all changes of ``PAUSE_SECONDS``.
    """

    def __init__(
        self, meta: MetadataStore, prefix: str, changed: Callable[[Mapping[str, bytes]], None]
    ) -> None:
        self._meta = meta
        self._prefix = prefix
        self._changed = changed
        self._values: dict[str, bytes] = {}
        self._loaded = -1
        """The revision of the last full read: it includes every change up to that revision."""
        self._seen = -1
        self._called_at = -PAUSE_SECONDS
        self._pending_call: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        """Read all values now; includes every write that has returned. Raises ``StoreError``."""
        found = await self._meta.scan(self._prefix, prefix_end(self._prefix))
        if found.revision < self._seen:
            return  # the watch has delivered newer changes already
        self._loaded = self._seen = found.revision
        values = {entry.key.removeprefix(self._prefix): entry.value for entry in found.entries}
        if values != self._values or self._pending_call is not None:
            self._values = values
            self._call_changed()

    async def refresh(self) -> None:
        """Read all values now, to see a write of this process at once.

        If the read fails, the watch delivers the write later.
        """
        try:
            await self.load()
        except StoreError as error:
            logger.warning(
                "Could not read metadata again", extra={"prefix": self._prefix, "error": error}
            )

    async def run(self) -> None:
        """Follow changes until cancelled."""
        try:
            while True:
                await self._follow()
        finally:
            self._cancel_pending_call()

    async def _follow(self) -> None:
        try:
            await self.load()
            async for changes in self._meta.watch(self._prefix, self._loaded):
                self._apply(changes)
        except WatchTrimmed:
            logger.warning(
                "Missed metadata changes that the store has trimmed; reading all values again",
                extra={"prefix": self._prefix},
            )
        except StoreError as error:
            logger.warning(
                "Could not watch metadata", extra={"prefix": self._prefix, "error": error}
            )
            await asyncio.sleep(RETRY_SECONDS)

    def _apply(self, changes: list[KeyChange]) -> None:
        news = [change for change in changes if change.revision > self._loaded]
        for change in news:
            name = change.key.removeprefix(self._prefix)
            if change.value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = change.value
            self._seen = change.revision
        if news:
            self._call_soon()

    def _call_soon(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._called_at + PAUSE_SECONDS
        if len(self._values) <= TURN_ELEMENTS or loop.time() >= due:
            self._call_changed()
        elif self._pending_call is None:
            self._pending_call = loop.call_at(due, self._call_changed)

    def _call_changed(self) -> None:
        self._cancel_pending_call()
        self._called_at = asyncio.get_running_loop().time()
        self._changed(self._values)

    def _cancel_pending_call(self) -> None:
        if self._pending_call is not None:
            self._pending_call.cancel()
            self._pending_call = None
