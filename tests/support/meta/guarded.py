"""A metadata store whose every call goes through one function."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from headwater.meta.store import (
    CommitResult,
    Decide,
    Entry,
    KeyChange,
    Limits,
    MetadataStore,
    Scan,
    Session,
)

T = TypeVar("T")


class Interference(Protocol):
    """Does the work, or does not, or does it and loses its answer."""

    async def __call__(self, work: Callable[[], Awaitable[T]], /) -> T: ...


class GuardedStore:
    def __init__(self, store: MetadataStore, guard: Interference) -> None:
        self._store = store
        self._guard = guard

    @property
    def limits(self) -> Limits:
        return self._store.limits

    async def get(self, key: str) -> Entry | None:
        return await self._guard(lambda: self._store.get(key))

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        return await self._guard(lambda: self._store.scan(start, end, limit=limit, reverse=reverse))

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        async for page in self._store.scan_pages(start, end, size=size):
            yield await self._guard(partial(_now, page))

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        return await self._guard(lambda: self._store.transact(domain, keys, decide))

    async def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        async for changes in self._store.watch(prefix, after):
            yield await self._guard(partial(_now, changes))

    async def session(self, ttl: float) -> Session:
        return await self._guard(lambda: self._store.session(ttl))

    async def close(self) -> None:
        await self._store.close()


async def _now(value: T) -> T:
    return value
