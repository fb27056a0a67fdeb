"""Stores whose calls can be made to fail, to hang or to end the caller, one by one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from headwater.meta.store import (
    Change,
    Committed,
    Decide,
    Entry,
    Limits,
    MetadataStore,
    Scan,
    Session,
)
from headwater.objects.store import Buffer, GrowingObject, ObjectInfo, ObjectStore, Traffic

T = TypeVar("T")


class Crash(Exception):
    """The process ended here."""


class Interruption:
    """Counts the calls of the stores that share it, and strikes where it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.released = asyncio.Event()
        """Ends the calls that hang."""
        self._numbers: range = range(0)
        self._strike: Exception | None = None
        self._after = False

    def strike(
        self, numbers: range, error: Exception | None = None, *, after: bool = False
    ) -> None:
        """Have the calls of these numbers, from here on, fail before or after they land.

        Without an error they hang.
        """
        self.calls = 0
        self._numbers, self._strike, self._after = numbers, error, after

    def stop(self) -> None:
        self._numbers = range(0)
        self.released.set()

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        number = self.calls
        self.calls += 1
        if number not in self._numbers:
            return await work()
        if self._strike is None:
            await self.released.wait()
            return await work()
        if self._after:
            await work()
        raise self._strike


class InterruptedStore:
    """A metadata store whose reads and transactions an ``Interruption`` counts."""

    def __init__(self, store: MetadataStore, interruption: Interruption) -> None:
        self._store = store
        self._interruption = interruption

    @property
    def limits(self) -> Limits:
        return self._store.limits

    async def get(self, key: str) -> Entry | None:
        return await self._interruption.call(lambda: self._store.get(key))

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        return await self._interruption.call(
            lambda: self._store.scan(start, end, limit=limit, reverse=reverse)
        )

    async def transact(self, domain: int, keys: Sequence[str], decide: Decide[T]) -> Committed[T]:
        return await self._interruption.call(lambda: self._store.transact(domain, keys, decide))

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[Change]]:
        return self._store.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        return await self._store.session(ttl)

    async def close(self) -> None:
        await self._store.close()


class InterruptedObjects:
    """An object store whose requests an ``Interruption`` counts; its objects are written whole."""

    def __init__(self, store: ObjectStore, interruption: Interruption) -> None:
        self._store = store
        self._interruption = interruption

    @property
    def id(self) -> str:
        return self._store.id

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._interruption.call(lambda: self._store.put(key, parts))

    def grow(self, key: str) -> GrowingObject | None:
        return None

    async def get(self, key: str) -> bytearray:
        return await self._interruption.call(lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self._interruption.call(lambda: self._store.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._interruption.call(lambda: self._store.delete(key))

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        return self._store.list(prefix)

    async def close(self) -> None:
        await self._store.close()
