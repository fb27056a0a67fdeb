"""A part of the metadata store, small enough to be kept whole in memory, as the store has it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from headwater.errors import StoreError, WatchTrimmed
from headwater.meta.store import Change, MetadataStore, prefix_end

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.5


class Mirror:
    """The values under a prefix: ``load`` them, then keep ``run`` in a task.

    ``changed`` is called with all values, by their keys without the prefix, whenever they are
    others than before. A reader may see them a moment late, never out of order.
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

    async def load(self) -> None:
        """Read everything now: a write that has returned is seen. Raises ``StoreError``."""
        found = await self._meta.scan(self._prefix, prefix_end(self._prefix))
        if found.revision < self._seen:
            return  # the watch was faster
        self._loaded = self._seen = found.revision
        values = {entry.key.removeprefix(self._prefix): entry.value for entry in found.entries}
        if values != self._values:
            self._values = values
            self._changed(values)

    async def refresh(self) -> None:
        """Let this process see its own write at once; where that fails the watch brings it."""
        try:
            await self.load()
        except StoreError as error:
            logger.warning("cannot read %s again: %s", self._prefix, error)

    async def run(self) -> None:
        """Follow changes until cancelled."""
        while True:
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
            self._changed(self._values)
