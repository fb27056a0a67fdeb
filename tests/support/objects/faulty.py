"""An object store that fails on demand, around any other. With no fault set it is that store."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import TypeVar

from headwater.errors import ObjectNotFound, StoreError
from headwater.objects.retrying import TransientFailure
from headwater.objects.store import Buffer, DeletableObjects, GrowingObject, ObjectInfo, Traffic
from tests.support.objects.guarded import GuardedGrowth

T = TypeVar("T")


class When(Enum):
    """Whether a request that fails has reached the store."""

    BEFORE = "before it landed"
    AFTER = "after it landed"


@dataclass(slots=True)
class ObjectFaults:
    """How often requests fail (0 to 1), and for how many seconds things take longer."""

    before: float = 0.0
    after: float = 0.0
    longest_delay: float = 0.0
    hidden: float = 0.0
    """How long a read does not find an object that was just put."""


class FaultyObjects:
    """``faults`` may be changed at any time; ``fail_next`` sets single failures."""

    def __init__(
        self, inner: DeletableObjects, *, random: Random, faults: ObjectFaults | None = None
    ) -> None:
        self.inner = inner
        self.faults = faults or ObjectFaults()
        self._random = random
        self._next: deque[tuple[When, StoreError]] = deque()
        self._visible_at: dict[str, float] = {}

    def fail_next(
        self, count: int = 1, *, when: When = When.BEFORE, error: StoreError | None = None
    ) -> None:
        """Fail the next requests, of whatever kind, each once."""
        self._next.extend([(when, error or TransientFailure("injected"))] * count)

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def traffic(self) -> Traffic:
        return self.inner.traffic

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        async def put() -> None:
            await self.inner.put(key, parts)
            if self.faults.hidden:
                self._visible_at[key] = self._time() + self.faults.hidden

        await self.request(put)

    def grow(self, key: str) -> GrowingObject | None:
        inner = self.inner.grow(key)
        return None if inner is None else GuardedGrowth(inner, self.request)

    async def get(self, key: str) -> bytearray:
        return await self.request(lambda: self._visible(key, lambda: self.inner.get(key)))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self.request(
            lambda: self._visible(key, lambda: self.inner.get_range(key, start, length))
        )

    async def delete(self, key: str) -> None:
        await self.request(lambda: self.inner.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in self.inner.list(prefix):
            await self.request(lambda: asyncio.sleep(0))
            yield info

    async def close(self) -> None:
        await self.inner.close()

    async def request(self, request: Callable[[], Awaitable[T]]) -> T:
        failure = self._draw()
        if self.faults.longest_delay:
            await asyncio.sleep(self._random.uniform(0, self.faults.longest_delay))
        if failure and failure[0] is When.BEFORE:
            raise failure[1]
        result = await request()
        if failure:
            raise failure[1]
        return result

    def _draw(self) -> tuple[When, StoreError] | None:
        if self._next:
            return self._next.popleft()
        chance = self._random.random()
        if chance < self.faults.before:
            return When.BEFORE, TransientFailure("injected")
        if chance < self.faults.before + self.faults.after:
            return When.AFTER, TransientFailure("injected")
        return None

    async def _visible(self, key: str, read: Callable[[], Awaitable[bytearray]]) -> bytearray:
        if self._visible_at.get(key, 0.0) > self._time():
            raise ObjectNotFound(f"{key} is hidden")
        return await read()

    @staticmethod
    def _time() -> float:
        return asyncio.get_running_loop().time()
