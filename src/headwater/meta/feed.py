"""What watches are given where the store keeps a table of changes, one row per revision.

This process's own commits come from memory, the rest from the store. The last revisions stand
in memory without a gap. An own commit that follows them directly is added as it is; a gap means
that a neighbour committed, and the store is read.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from headwater.errors import StoreError, StoreUnavailable, WatchTrimmed
from headwater.meta.store import Change

log = logging.getLogger(__name__)

RECENT_REVISIONS = 1024
RECENT_BYTES = 8 * 2**20

Item = tuple[str, bytes | None]
"""A key and its value; None where it was deleted."""

Revisions = list[tuple[int, list[Item]]]


@dataclass(slots=True)
class _Place:
    """How far a watch of a prefix has come."""

    prefix: str
    after: int


class ChangeFeed:
    """Changes in order, for any number of watches at their own places.

    ``read`` returns the next revisions after one from the store, ``last`` the store's revision;
    revisions are numbered without a gap. The store calls ``committed`` after its own commits
    and, from one task, ``catch_up`` whenever a neighbour may have committed.
    """

    def __init__(
        self,
        revision: int,
        *,
        read: Callable[[int], Awaitable[Revisions]],
        last: Callable[[], Awaitable[int]],
    ) -> None:
        self._newest = revision
        self._recent: deque[tuple[int, list[Item], int]] = deque()
        self._recent_bytes = 0
        self._read = read
        self._last = last
        self._waiting: dict[asyncio.Future[None], _Place] = {}
        self._unread = False
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether anyone waits for the next change."""
        return bool(self._waiting)

    @property
    def unread(self) -> bool:
        """Whether the store has not been looked at since someone began to wait."""
        return self._unread

    def committed(self, revision: int, items: list[Item]) -> bool:
        """Take an own commit; False where a neighbour's came between, left to ``catch_up``."""
        if revision == self._newest + 1:
            self._add(revision, items)
            self._wake_concerned(revision, items)
        return revision <= self._newest

    async def catch_up(self) -> None:
        """Read what is in the store beyond memory, for the watches that wait."""
        self._unread = False
        needed = min((place.after for place in self._waiting.values()), default=self._newest)
        if needed > self._newest:  # nobody watched for a while
            self._start_over(needed)
        try:
            while revisions := await self._read(self._newest):
                for revision, items in revisions:
                    if revision == self._newest + 1:
                        self._add(revision, items)
                self._wake()
        except WatchTrimmed:  # this process was paused; each watch finds out by itself
            self._start_over(await self._last())
            self._wake()

    async def follow(self, changed: asyncio.Event, pause: float) -> None:
        """Catch up whenever ``changed`` is set, for ever; after a failure again in ``pause``."""
        while True:
            await changed.wait()
            changed.clear()
            try:
                await self.catch_up()
            except StoreError as error:
                log.warning("metadata changes are not read: %s", error)
                await asyncio.sleep(pause)
                changed.set()

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[Change]]:
        """Every change under ``prefix`` above ``after``, whole revisions at a time."""
        place = _Place(prefix, after)
        while True:
            if self._closed:
                raise StoreUnavailable("the metadata store is closed")
            oldest = self._newest - len(self._recent)
            if place.after < oldest:
                revisions = await self._read(place.after)
            else:
                recent = self._recent
                places = range(place.after - oldest, len(recent))
                revisions = [(recent[number][0], recent[number][1]) for number in places]
            found: list[Change] = []
            for revision, items in revisions:
                found.extend(under_prefix(prefix, revision, items))
                place.after = revision
            if found:
                yield found
            elif not revisions:
                await self._wait(place)

    def close(self) -> None:
        """End every watch with an error."""
        self._closed = True
        self._wake()

    def _start_over(self, revision: int) -> None:
        self._newest = revision
        self._recent.clear()
        self._recent_bytes = 0

    def _add(self, revision: int, items: list[Item]) -> None:
        size = sum(len(key) + len(value or b"") for key, value in items)
        self._newest = revision
        self._recent.append((revision, items, size))
        self._recent_bytes += size
        while len(self._recent) > RECENT_REVISIONS or self._recent_bytes > RECENT_BYTES:
            self._recent_bytes -= self._recent.popleft()[2]

    async def _wait(self, place: "_Place") -> None:
        future = asyncio.get_running_loop().create_future()
        self._unread = self._unread or not self._waiting
        self._waiting[future] = place
        try:
            await future
        finally:
            del self._waiting[future]

    def _wake_concerned(self, revision: int, items: list[Item]) -> None:
        """Wake the watches that a revision is for; the others are taken past it."""
        for future, place in self._waiting.items():
            if place.after == revision - 1 and not any(
                key.startswith(place.prefix) for key, _ in items
            ):
                place.after = revision
            elif not future.done():
                future.set_result(None)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


def under_prefix(prefix: str, revision: int, items: Iterable[Item]) -> list[Change]:
    return [Change(key, value, revision) for key, value in items if key.startswith(prefix)]
