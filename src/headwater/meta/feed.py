"""Watches for backends that store a table of changes, with one row per revision.

The last revisions are kept in memory, without gaps. A commit of this process that follows them
directly is added from memory. A gap means that another process has committed: the missing
revisions are then read from the store.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from headwater.errors import StoreError, StoreUnavailable, WatchTrimmed
from headwater.meta.store import KeyChange

log = logging.getLogger(__name__)

RECENT_REVISIONS = 1024
RECENT_BYTES = 8 * 2**20

Item = tuple[str, bytes | None]
"""A key and its value; None if it was deleted."""

Revisions = list[tuple[int, list[Item]]]


@dataclass(slots=True)
class _WatchPosition:
    """A watch's prefix, and the last revision that it has delivered."""

    prefix: str
    after: int


class ChangeFeed:
    """The ordered changes of a store, for any number of watches at different revisions.

    ``read`` returns the revisions that follow a given one, ``last`` the store's last revision;
    revisions are numbered without gaps. The backend calls ``committed`` after each commit of this
    process and, from one task, ``catch_up`` if another process may have committed.
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
        self._waiting_watches: dict[asyncio.Future[None], _WatchPosition] = {}
        self._unread = False
        self._closed = False

    @property
    def watched(self) -> bool:
        """Whether a watch is waiting for the next change."""
        return bool(self._waiting_watches)

    @property
    def unread(self) -> bool:
        """Whether the store has not been read since the first watch began to wait."""
        return self._unread

    def committed(self, revision: int, items: list[Item]) -> bool:
        """Add a commit of this process; False if revisions before it are missing (``catch_up``)."""
        if revision == self._newest + 1:
            self._add(revision, items)
            self._wake_matching(revision, items)
        return revision <= self._newest

    async def catch_up(self) -> None:
        """Read the revisions that are not in memory yet, and wake the waiting watches."""
        self._unread = False
        needed = min(
            (position.after for position in self._waiting_watches.values()), default=self._newest
        )
        if needed > self._newest:  # no watch was waiting for a while
            self._start_over(needed)
        try:
            while revisions := await self._read(self._newest):
                for revision, items in revisions:
                    if revision == self._newest + 1:
                        self._add(revision, items)
                self._wake()
        except WatchTrimmed:  # this process was paused; each watch raises the error separately
            self._start_over(await self._last())
            self._wake()

    async def follow(self, changed: asyncio.Event, pause: float) -> None:
        """Call ``catch_up`` whenever ``changed`` is set, and ``pause`` seconds after an error."""
        while True:
            await changed.wait()
            changed.clear()
            try:
                await self.catch_up()
            except StoreError as error:
                log.warning("Could not read metadata changes", extra={"error": error})
                await asyncio.sleep(pause)
                changed.set()

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        """Every change under ``prefix`` after revision ``after``; revisions are never split."""
        position = _WatchPosition(prefix, after)
        while True:
            if self._closed:
                raise StoreUnavailable("the metadata store is closed")
            oldest = self._newest - len(self._recent)
            if position.after < oldest:
                revisions = await self._read(position.after)
            else:
                recent = self._recent
                positions = range(position.after - oldest, len(recent))
                revisions = [(recent[number][0], recent[number][1]) for number in positions]
            found: list[KeyChange] = []
            for revision, items in revisions:
                found.extend(changes_under_prefix(prefix, revision, items))
                position.after = revision
            if found:
                yield found
            elif not revisions:
                await self._wait(position)

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

    async def _wait(self, position: "_WatchPosition") -> None:
        future = asyncio.get_running_loop().create_future()
        self._unread = self._unread or not self._waiting_watches
        self._waiting_watches[future] = position
        try:
            await future
        finally:
            del self._waiting_watches[future]

    def _wake_matching(self, revision: int, items: list[Item]) -> None:
        """Wake the watches whose prefix changed; advance the others past the revision."""
        for future, position in self._waiting_watches.items():
            if position.after == revision - 1 and not any(
                key.startswith(position.prefix) for key, _ in items
            ):
                position.after = revision
            elif not future.done():
                future.set_result(None)

    def _wake(self) -> None:
        for future in self._waiting_watches:
            if not future.done():
                future.set_result(None)


def changes_under_prefix(prefix: str, revision: int, items: Iterable[Item]) -> list[KeyChange]:
    return [KeyChange(key, value, revision) for key, value in items if key.startswith(prefix)]
