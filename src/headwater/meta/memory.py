"""The metadata store in memory: for tests, simulation and brokers without durable storage.

All code runs on the event loop, each call yields to the loop once, and ``loop.time()`` is the only
clock. A simulated event loop therefore replays a run exactly.

Several brokers in one process share a ``MemoryDatabase``, each through its own ``MemoryStore``.
"""

import asyncio
from bisect import bisect_left, insort
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from itertools import islice

from headwater.errors import SessionLost, StoreUnavailable, WatchTrimmed
from headwater.meta.limits import check_keys, check_writes
from headwater.meta.sessions import RenewedSession
from headwater.meta.store import (
    CommitResult,
    Decide,
    Entry,
    KeyChange,
    Limits,
    Scan,
    Session,
    T,
    Writes,
)

MAX_HISTORY = 50_000


class MemoryDatabase:
    """The state that several ``MemoryStore`` share: entries, sessions and the last changes.

    ``history`` is the number of changes that are kept for watches.
    """

    def __init__(self, *, history: int = MAX_HISTORY) -> None:
        self.revision = 0
        self.entries: dict[str, Entry] = {}
        self._keys: list[str] = []
        self._history: deque[tuple[KeyChange, ...]] = deque()
        self._max_history = history
        self._history_size = 0
        self._owners: dict[str, str] = {}
        self._sessions: dict[str, asyncio.TimerHandle] = {}
        self._sessions_opened = 0
        self._waiting: list[asyncio.Future[None]] = []

    def keys(self, start: str, end: str) -> list[str]:
        """The keys with ``start <= key < end``, in order."""
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]

    def apply(self, writes: Writes) -> None:
        """Commit ``writes`` as one revision; writes that change nothing make no revision."""
        for key, session in writes.ephemeral.items():
            if not self._alive(session):
                raise SessionLost(f"session {session} has ended: {key} cannot be bound to it")
        deleted = {key for key in writes.deletes if key in self.entries}
        for start, end in writes.range_deletes:
            deleted.update(self.keys(start, end))
        revision = self.revision + 1
        changes = [KeyChange(key, None, revision) for key in sorted(deleted - writes.puts.keys())]
        changes.extend(KeyChange(key, value, revision) for key, value in writes.puts.items())
        if not changes:
            return
        for change in changes:
            self._apply_change(change)
        self._owners.update(writes.ephemeral)
        self.revision = revision
        self._history.append(tuple(changes))
        self._history_size += len(changes)
        while self._history_size > self._max_history:
            self._history_size -= len(self._history.popleft())
        self.wake()

    def changes(self, after: int) -> Iterable[tuple[KeyChange, ...]]:
        """The changes of every revision above ``after``; ``WatchTrimmed`` if some are gone."""
        first = self.revision - len(self._history)
        if after < first:
            raise WatchTrimmed(
                f"the changes after revision {after} were trimmed up to revision {first}"
            )
        return islice(self._history, after - first, None)

    def forget_changes(self) -> None:
        """Drop the whole history, as if newer changes had displaced it."""
        self._history.clear()
        self._history_size = 0

    async def wait_change(self) -> None:
        """Return after the next commit, or when a store closes."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def open_session(self, ttl: float) -> str:
        self._sessions_opened += 1
        session = f"session-{self._sessions_opened}"
        self._sessions[session] = asyncio.get_running_loop().call_later(
            ttl, self.end_session, session
        )
        return session

    def renew_session(self, session: str, ttl: float) -> None:
        if not self._alive(session):
            raise SessionLost(f"session {session} has ended")
        self._sessions[session].cancel()
        self._sessions[session] = asyncio.get_running_loop().call_later(
            ttl, self.end_session, session
        )

    def end_session(self, session: str) -> None:
        timer = self._sessions.pop(session, None)
        if timer is not None:
            timer.cancel()
            owned = sorted(key for key, owner in self._owners.items() if owner == session)
            self.apply(Writes(deletes=owned))

    def _alive(self, session: str) -> bool:
        # A timer that is due may not have run yet.
        timer = self._sessions.get(session)
        return timer is not None and timer.when() > asyncio.get_running_loop().time()

    def _apply_change(self, change: KeyChange) -> None:
        self._owners.pop(change.key, None)
        if change.value is None:
            del self.entries[change.key]
            del self._keys[bisect_left(self._keys, change.key)]
            return
        if change.key not in self.entries:
            insort(self._keys, change.key)
        self.entries[change.key] = Entry(change.key, change.value, change.revision)


class MemoryStore:
    """A ``MetadataStore`` on a ``MemoryDatabase``, by default a new one.

    ``limits`` are enforced, so that a test can pass the limits of another backend. Closing the
    store leaves its database open for other stores.
    """

    def __init__(
        self, limits: Limits | None = None, *, database: MemoryDatabase | None = None
    ) -> None:
        self._limits = limits if limits is not None else Limits()
        self.database = database if database is not None else MemoryDatabase()
        self._sessions: set[RenewedSession] = set()
        self._closed = False

    @property
    def limits(self) -> Limits:
        return self._limits

    async def get(self, key: str) -> Entry | None:
        await self._yield()
        return self.database.entries.get(key)

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        await self._yield()
        keys = self.database.keys(start, end)
        if reverse:
            keys.reverse()
        entries = [self.database.entries[key] for key in keys[:limit]]
        return Scan(entries, self.database.revision)

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        scan = await self.scan(start, end)
        for first in range(0, max(1, len(scan.entries)), size):
            yield Scan(scan.entries[first : first + size], scan.revision)
            await self._yield()

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        check_keys(self._limits, keys)
        await self._yield()
        writes, result = decide({key: self.database.entries.get(key) for key in keys})
        check_writes(self._limits, writes)
        self.database.apply(writes)
        return CommitResult(self.database.revision, result)

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        while True:
            await self._yield()
            found = [
                change
                for changes in self.database.changes(after)
                for change in changes
                if change.key.startswith(prefix)
            ]
            after = max(after, self.database.revision)
            if found:
                yield found
            else:
                await self.database.wait_change()

    async def session(self, ttl: float) -> Session:
        await self._yield()
        now = asyncio.get_running_loop().time
        opened = now()
        name = self.database.open_session(ttl)

        async def renew() -> None:
            await self._yield()
            self.database.renew_session(name, ttl)

        async def end() -> None:
            self._sessions.discard(session)
            self.database.end_session(name)

        session = RenewedSession(name, ttl=ttl, opened=opened, now=now, renew=renew, end=end)
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Close the store; open sessions expire after their ttl, and watches raise an error."""
        self._closed = True
        for session in list(self._sessions):
            await session.abandon()
        self._sessions.clear()
        self.database.wake()

    async def _yield(self) -> None:
        # A caller that calls the store in a loop must not starve the other tasks.
        await asyncio.sleep(0)
        if self._closed:
            raise StoreUnavailable("the metadata store is closed")
