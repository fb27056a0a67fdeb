"""Deletes objects that a dead incarnation wrote and did not commit.

The incarnation is fenced first, by deleting its key, so that it cannot commit any more. Only then
its objects without a record are deleted.

To avoid listing a large bucket again and again, fencing leaves a note of the incarnation. One
broker searches the objects of that incarnation: at once, then at doubling intervals, and for the
last time when no PUT of it can be in flight. Then the note is deleted. That broker also searches
all objects when it starts and once a day, which finds orphans without a note.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.clock import Clock
from headwater.log.formats.metadata_values import Incarnation
from headwater.log.reclaim.reclaimer import Reason, Reclaimer
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.scan import scan_all
from headwater.meta.store import MetadataStore, Values, Writes, prefix_end
from headwater.meta.transactions import transact
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

WAL_PREFIX: Final = "wal/"
OBJECTS_AT_ONCE: Final = 1_000
SETTLED_MS: Final = 60 * 60 * 1000
"""Longer than any PUT can be in flight."""
SEARCH_ALL_MS: Final = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class _Searches:
    """When the objects of a fenced incarnation were first searched, and when they are next due."""

    first_ms: int
    next_ms: int


class OrphanCollector:
    """Fences dead incarnations and deletes their uncommitted objects.

    ``require_own_objects`` raises if the objects are not those of this metadata store.
    """

    def __init__(
        self,
        meta: MetadataStore,
        objects: ObjectStore,
        reclaimer: Reclaimer,
        settings: LogSettings,
        clock: Clock,
        require_own_objects: Callable[[], Awaitable[None]],
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._reclaimer = reclaimer
        self._settings = settings
        self._clock = clock
        self._require_own_objects = require_own_objects
        self.missing_since: dict[str, int] = {}
        """Incarnations that are not registered, and when this process first missed them."""
        self._searches: dict[str, _Searches] = {}
        """Fenced incarnations whose objects were searched."""
        self._searched_all: int | None = None

    async def collect(self, living: Collection[str], *, search: bool) -> int:
        """Fence the incarnations that are not in ``living``; returns how many objects were deleted.

        An incarnation is fenced ``orphan_grace_ms`` after this process first missed it. Objects are
        searched only if ``search`` is set.
        """
        await self._fence_missing(living)
        if not search:
            self._searches, self._searched_all = {}, None
            return 0
        now_ms = self._clock.now_ms()
        deleted = await self._search_fenced(now_ms)
        if self._searched_all is None or self._searched_all + SEARCH_ALL_MS <= now_ms:
            deleted += await self._search(WAL_PREFIX)
            self._searched_all = now_ms
        return deleted

    async def _fence_missing(self, living: Collection[str]) -> None:
        now_ms = self._clock.now_ms()
        found = {
            entry.key.removeprefix(keys.incarnations(0)): entry.value
            async for entry in scan_all(self._meta, keys.incarnations(0))
        }
        for name in self.missing_since.keys() - (found.keys() - set(living)):
            del self.missing_since[name]
        for name, value in found.items():
            if name in living:
                continue
            since = self.missing_since.setdefault(name, now_ms)
            if since + self._settings.orphan_grace_ms > now_ms:
                continue
            await fence(self._meta, name)
            del self.missing_since[name]
            broker = decode(Incarnation, value).broker
            logger.info("Fenced a dead incarnation", extra={"incarnation": name, "broker": broker})

    async def _search_fenced(self, now_ms: int) -> int:
        deleted = 0
        noted = [
            entry.key.removeprefix(keys.fenced(0))
            async for entry in scan_all(self._meta, keys.fenced(0))
        ]
        for name in noted:
            searches = self._searches.setdefault(name, _Searches(first_ms=now_ms, next_ms=now_ms))
            if searches.next_ms > now_ms:
                continue
            deleted += await self._search(f"{WAL_PREFIX}{name}/")
            age_ms = now_ms - searches.first_ms
            if age_ms >= SETTLED_MS:
                await self._forget(name)
                del self._searches[name]
            else:
                searches.next_ms = now_ms + max(age_ms, self._settings.gc_interval_ms)
        return deleted

    async def _search(self, prefix: str) -> int:
        """Delete the orphans below a prefix, of one incarnation after another."""
        deleted = 0
        name, some = "", list[str]()
        async for info in self._objects.list(prefix):
            own = incarnation_of(info.key)
            if own != name or len(some) == OBJECTS_AT_ONCE:
                deleted += await self._delete_lost(name, some)
                name, some = own, []
            some.append(info.key)
        return deleted + await self._delete_lost(name, some)

    async def _delete_lost(self, name: str, objects: Sequence[str]) -> int:
        """Delete the objects of one incarnation, in key order, that have no record."""
        # An incarnation has its key before its first object, and never gets it back. So if the key
        # is absent now, no record can follow.
        if not objects or await self._meta.get(keys.incarnation(0, name)) is not None:
            return 0
        prefix = keys.objects(0)
        recorded = {
            entry.key.removeprefix(prefix).rpartition("/")[0]
            async for entry in scan_all(
                self._meta, f"{prefix}{objects[0]}/", prefix_end(f"{prefix}{objects[-1]}/")
            )
        }
        lost = [key for key in objects if key not in recorded]
        if lost:
            # After the records were read: they are stale if the cluster was restored, or the store
            # went back to an earlier state.
            await self._require_own_objects()
        await self._reclaimer.delete(lost, Reason.ORPHANED)
        return len(lost)

    async def _forget(self, name: str) -> None:
        def decide(_values: Values) -> tuple[Writes, None]:
            return Writes(deletes=[keys.fenced(0, name)]), None

        await transact(self._meta, [], decide)


def incarnation_of(object_key: str) -> str:
    """The incarnation that wrote a WAL object."""
    return object_key.split("/")[1]


async def fence(meta: MetadataStore, incarnation: str) -> None:
    """End an incarnation's right to commit for ever, and leave a note to search its objects."""

    # Without a comparison, because the commits of a busy incarnation could make it fail for long.
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.delete(keys.incarnation(0, incarnation))
        writes.put(keys.fenced(0, incarnation), b"")
        return writes, None

    await transact(meta, [], decide)
