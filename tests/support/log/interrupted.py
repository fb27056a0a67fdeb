"""Stores whose calls can be made to fail, to hang or to end the caller, one by one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from headwater.meta.store import KeyChange, MetadataStore, Session
from headwater.objects.store import DeletableObjects, GrowingObject
from tests.support.meta.guarded import GuardedStore
from tests.support.objects.guarded import GuardedObjects

T = TypeVar("T")


class Crash(Exception):
    """The process ended here."""


class Interruption:
    """Counts the calls of the stores that share it, and interrupts the chosen call."""

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


class InterruptedStore(GuardedStore):
    """A metadata store whose reads and transactions an ``Interruption`` counts."""

    def __init__(self, store: MetadataStore, interruption: Interruption) -> None:
        super().__init__(store, interruption.call)

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return self._store.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        return await self._store.session(ttl)


class InterruptedObjects(GuardedObjects):
    """An object store whose requests an ``Interruption`` counts; its objects are written whole."""

    def __init__(self, store: DeletableObjects, interruption: Interruption) -> None:
        super().__init__(store, interruption.call)

    def grow(self, key: str) -> GrowingObject | None:
        return None
