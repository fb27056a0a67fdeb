"""Retries around any object store, in one place.

A repeated request is safe by the store's own contract: a put never replaces, a delete of an
absent object is no error, and reads change nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from headwater.errors import ObjectStoreUnavailable
from headwater.objects.store import Buffer, DeletableObjects, ObjectInfo, Traffic

T = TypeVar("T")


class TransientFailure(ObjectStoreUnavailable):
    """Raised by a backend where the very same request may succeed in a moment.

    A time-out, a lost connection, a throttled request. Callers see a ``ObjectStoreUnavailable``.
    """


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded in attempts and in time (seconds)."""

    attempts: int = 10
    total: float = 60.0
    first_delay: float = 0.05
    longest_delay: float = 5.0

    def delay(self, failures: int, random: Random) -> float:
        """How long to wait after that many failures.

        >>> RetryPolicy().delay(3, Random(1)) <= 0.2
        True
        """
        return random.uniform(0, min(self.longest_delay, self.first_delay * 2 ** (failures - 1)))


class RetryingObjects:
    """An ``ObjectStore`` that repeats what failed with ``TransientFailure``.

    What is raised after the last attempt is that attempt's error. Each attempt counts as a
    request in ``traffic``, since a store bills it, and each repeat also in ``retries``.
    """

    def __init__(
        self, inner: DeletableObjects, *, random: Random, policy: RetryPolicy | None = None
    ) -> None:
        self._inner = inner
        self._random = random
        self._policy = policy or RetryPolicy()

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def traffic(self) -> Traffic:
        return self._inner.traffic

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._attempt(lambda: self._inner.put(key, parts))

    def grow(self, key: str) -> None:
        """Objects are written whole."""

    async def get(self, key: str) -> bytearray:
        return await self._attempt(lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self._attempt(lambda: self._inner.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._attempt(lambda: self._inner.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """A listing that broke off starts again and leaves out what it has given already."""
        backoff = self._backoff()
        last = ""
        while True:
            try:
                async for info in self._inner.list(prefix):
                    if info.key > last:
                        last = info.key
                        yield info
            except TransientFailure as failure:
                await backoff.wait(failure)
            else:
                return

    async def close(self) -> None:
        await self._inner.close()

    async def _attempt(self, request: Callable[[], Awaitable[T]]) -> T:
        backoff = self._backoff()
        while True:
            try:
                return await request()
            except TransientFailure as failure:
                await backoff.wait(failure)

    def _backoff(self) -> "_Backoff":
        deadline = asyncio.get_running_loop().time() + self._policy.total
        return _Backoff(self._policy, self._random, self._inner.traffic, deadline)


@dataclass(slots=True)
class _Backoff:
    """The failures of one request."""

    policy: RetryPolicy
    random: Random
    traffic: Traffic
    deadline: float
    failures: int = 0

    async def wait(self, failure: TransientFailure) -> None:
        """Wait before the next attempt, or raise ``failure`` where there is none."""
        self.failures += 1
        delay = self.policy.delay(self.failures, self.random)
        late = asyncio.get_running_loop().time() + delay > self.deadline
        if late or self.failures >= self.policy.attempts:
            raise failure
        self.traffic.retries += 1
        await asyncio.sleep(delay)
