"""A part of the metadata store, small enough to be kept whole in memory, as the store has it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from headwater.errors import StoreError, WatchTrimmed
from headwater.meta.store import Change, MetadataStore, prefix_end
from headwater.work_budget import TURN_ELEMENTS

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = 0.1
"""Between two calls of ``changed`` if there are many values: it looks at all of them each time."""


class Mirror:
    """The values under a prefix: ``load`` them, then keep ``run`` in a task.

    ``changed`` is called with all values, by their keys without the prefix, whenever they are
    others than before. A reader may see them a moment late, never out of order. If there are more
    than ``TURN_ELEMENTS`` of them, changes that follow each other quickly share a call.
    """

    def __init__(
        self, meta: MetadataStore, prefix: str, changed: Callable[[Mapping[str, bytes]], None]
    ) -> None:
        self._meta = meta
        self._prefix = prefix
        self._changed = changed
        self._values: dict[str, bytes] = {}
        self._loaded = -1
        """The revision of the last look at everything: changes up to it are in already."""
        self._seen = -1
        self._told_at = -PAUSE_SECONDS
        self._telling: asyncio.TimerHandle | None = None

    async def load(self) -> None:
        """Read everything now: a write that has returned is seen. Raises ``StoreError``."""
        found = await self._meta.scan(self._prefix, prefix_end(self._prefix))
        if found.revision < self._seen:
            return  # the watch was faster
        self._loaded = self._seen = found.revision
        values = {entry.key.removeprefix(self._prefix): entry.value for entry in found.entries}
        if values != self._values or self._telling is not None:
            self._values = values
            self._tell()

    async def refresh(self) -> None:
        """Let this process see its own write at once; where that fails the watch brings it."""
        try:
            await self.load()
        except StoreError as error:
            logger.warning("cannot read %s again: %s", self._prefix, error)

    async def run(self) -> None:
        """Follow changes until cancelled."""
        try:
            while True:
                await self._follow()
        finally:
            self._tell_no_more()

    async def _follow(self) -> None:
        try:
            await self.load()
            async for changes in self._meta.watch(self._prefix, self._loaded):
                self._apply(changes)
        except WatchTrimmed:
            logger.warning("fell behind the changes of %s; reading it again", self._prefix)
        except StoreError as error:
            logger.warning("cannot follow %s: %s", self._prefix, error)
            await asyncio.sleep(RETRY_SECONDS)

    def _apply(self, changes: list[Change]) -> None:
        news = [change for change in changes if change.revision > self._loaded]
        for change in news:
            name = change.key.removeprefix(self._prefix)
            if change.value is None:
                self._values.pop(name, None)
            else:
                self._values[name] = change.value
            self._seen = change.revision
        if news:
            self._tell_soon()

    def _tell_soon(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._told_at + PAUSE_SECONDS
        if len(self._values) <= TURN_ELEMENTS or loop.time() >= due:
            self._tell()
        elif self._telling is None:
            self._telling = loop.call_at(due, self._tell)

    def _tell(self) -> None:
        self._tell_no_more()
        self._told_at = asyncio.get_running_loop().time()
        self._changed(self._values)

    def _tell_no_more(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
