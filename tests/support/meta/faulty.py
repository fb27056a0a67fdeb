"""A metadata store that fails on purpose, in the ways that a real one does."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

from headwater.errors import StoreUnavailable, UnknownOutcome
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
class MetadataFaults:
    """How often each fault strikes (0 to 1), and the longest delays in seconds.

    May be changed while the store is in use.
    """

    lost_answer: float = 0.0
    lost_request: float = 0.0
    unavailable: float = 0.0
    delay: float = 0.0
    watch_delay: float = 0.0


class FaultyStore:
    """Wraps a store; with no faults it is that store.

    ``lost_answer`` raises ``UnknownOutcome`` after the commit landed, ``lost_request`` raises it
    where nothing did; ``unavailable`` raises ``StoreUnavailable`` from any call.
    """

    def __init__(
        self, store: MetadataStore, random: Random, faults: MetadataFaults | None = None
    ) -> None:
        self._store = store
        self._random = random
        self.faults = faults if faults is not None else MetadataFaults()

    @property
    def limits(self) -> Limits:
        return self._store.limits

    async def get(self, key: str) -> Entry | None:
        await self._obstruct()
        return await self._store.get(key)

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        await self._obstruct()
        return await self._store.scan(start, end, limit=limit, reverse=reverse)

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        await self._obstruct()
        async for page in self._store.scan_pages(start, end, size=size):
            yield page
            await self._obstruct()

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        await self._obstruct()
        if self._strikes(self.faults.lost_request):
            raise UnknownOutcome("the request was lost")
        committed = await self._store.transact(domain, keys, decide)
        await self._delay(self.faults.delay)
        if self._strikes(self.faults.lost_answer):
            raise UnknownOutcome("the answer was lost")
        return committed

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        async for changes in self._store.watch(prefix, after):
            await self._delay(self.faults.watch_delay)
            yield changes

    async def session(self, ttl: float) -> Session:
        await self._obstruct()
        return await self._store.session(ttl)

    async def close(self) -> None:
        await self._store.close()

    async def _obstruct(self) -> None:
        await self._delay(self.faults.delay)
        if self._strikes(self.faults.unavailable):
            raise StoreUnavailable("the store does not answer")

    async def _delay(self, longest: float) -> None:
        if longest > 0:
            await asyncio.sleep(self._random.uniform(0, longest))

    def _strikes(self, rate: float) -> bool:
        return rate > 0 and self._random.random() < rate
