"""A metadata store seen through a slow and unreliable network.

Answers arrive late, so that they may be out of date. Each watch lags independently. Watches fold
the changes of a key, break with changes undelivered, and fail because their revision was trimmed.

Reordered are

- two watches, of one process or of two: each has its own delays, so what one transaction wrote is
  seen by one of them long before the other, and the later of two transactions may be seen first;
- a watch and the answers: a read may be older than what a watch has brought, or newer by much;
- the keys of one delivery, whose changes come in any order. Of one transaction's keys
  ``meta.store`` says nothing else; of several transactions' it does, and the log's caches shall
  not need it.

The changes of one key stay in order, and so do the deliveries of one watch. Every backend is tested
for revision order, and code that keeps a key's last value relies on it (``meta.mirror``). A watch
that loses its place ends with an error.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

from headwater.errors import StoreUnavailable, WatchTrimmed
from headwater.meta.store import (
    CommitResult,
    Decide,
    Entry,
    KeyChange,
    Limits,
    MetadataStore,
    Scan,
    Session,
    T,
)


@dataclass(slots=True)
class Lags:
    """The longest delays in seconds, and how often (0 to 1) a delivery meets a fault."""

    answer: float = 0.0
    watch: float = 0.0
    stall: float = 0.0
    broken: float = 0.0
    trimmed: float = 0.0
    folded: float = 0.0
    shuffled: float = 0.0


class LaggingStore:
    """Wraps a store; its watches lose nothing without an error, and keep each key's order."""

    def __init__(self, store: MetadataStore, random: Random, lags: Lags) -> None:
        self._store = store
        self._random = random
        self._lags = lags

    @property
    def limits(self) -> Limits:
        return self._store.limits

    async def get(self, key: str) -> Entry | None:
        found = await self._store.get(key)
        await self._delay(self._lags.answer)
        return found

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        found = await self._store.scan(start, end, limit=limit, reverse=reverse)
        await self._delay(self._lags.answer)
        return found

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        async for page in self._store.scan_pages(start, end, size=size):
            await self._delay(self._lags.answer)
            yield page

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await self._delay(self._lags.answer)
        committed = await self._store.transact(domain, keys, decide)
        await self._delay(self._lags.answer)
        return committed

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        async for changes in self._store.watch(prefix, after):
            await self._delay(self._lags.watch)
            if self._strikes(self._lags.stall):
                await asyncio.sleep(30)
            if self._strikes(self._lags.broken):
                raise StoreUnavailable("the watch was cut")
            if self._strikes(self._lags.trimmed):
                raise WatchTrimmed("the place of the watch is gone")
            yield self._shuffle(self._fold(changes))

    async def session(self, ttl: float) -> Session:
        return await self._store.session(ttl)

    async def close(self) -> None:
        await self._store.close()

    def _fold(self, changes: list[KeyChange]) -> list[KeyChange]:
        if not self._strikes(self._lags.folded):
            return changes
        last = {change.key: change for change in changes}
        return [change for change in changes if last[change.key] is change]

    def _shuffle(self, changes: list[KeyChange]) -> list[KeyChange]:
        if not self._strikes(self._lags.shuffled):
            return changes
        of_key: dict[str, list[KeyChange]] = {}
        for change in reversed(changes):
            of_key.setdefault(change.key, []).append(change)
        return [of_key[each.key].pop() for each in self._random.sample(changes, len(changes))]

    async def _delay(self, longest: float) -> None:
        if longest > 0:
            await asyncio.sleep(self._random.uniform(0, longest))

    def _strikes(self, rate: float) -> bool:
        return rate > 0 and self._random.random() < rate
