"""Retries requests to any object store that failed temporarily.

Repeating a request is safe by the contract of ``ObjectStore``: a put never replaces an object, the
delete of an absent object is no error, and reads change nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from random import Random
from typing import Final, TypeVar

from headwater.errors import ObjectStoreUnavailable
from headwater.objects.store import Buffer, DeletableObjects, ObjectInfo, Traffic
from headwater.retry import Backoff, retry

T = TypeVar("T")


class TransientFailure(ObjectStoreUnavailable):
    """Raised by a backend if the same request may succeed in a moment.

    Examples are a timeout, a lost connection and a throttled request.
    """


BACKOFF: Final = Backoff(first=0.05, longest=5.0, attempts=10, total=60.0, jitter=(0, 1))


class RetryingObjects:
    """An ``ObjectStore`` that repeats requests that failed with ``TransientFailure``.

    After the last attempt its error is raised. ``traffic`` counts every attempt as a request,
    because stores bill each of them, and every repetition in ``retries``.
    """

    def __init__(
        self, inner: DeletableObjects, *, random: Random, backoff: Backoff = BACKOFF
    ) -> None:
        self._inner = inner
        self._random = random
        self._backoff = backoff

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def traffic(self) -> Traffic:
        return self._inner.traffic

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._attempt(lambda: self._inner.put(key, parts))

    def grow(self, key: str) -> None:
        """Always None: objects cannot grow."""

    async def get(self, key: str) -> bytearray:
        return await self._attempt(lambda: self._inner.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self._attempt(lambda: self._inner.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._attempt(lambda: self._inner.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """A listing that fails starts again, and skips the objects that it has returned already."""
        pauses = self._pauses()
        last = ""
        while True:
            try:
                async for info in self._inner.list(prefix):
                    if info.key > last:
                        last = info.key
                        yield info
            except TransientFailure as failure:
                pause = next(pauses, None)
                if pause is None:
                    raise
                self._count(failure)
            else:
                return
            await asyncio.sleep(pause)

    async def close(self) -> None:
        await self._inner.close()

    async def _attempt(self, request: Callable[[], Awaitable[T]]) -> T:
        return await retry(request, on=TransientFailure, pauses=self._pauses(), failed=self._count)

    def _pauses(self) -> Iterator[float]:
        return self._backoff.pauses(self._random, asyncio.get_running_loop().time)

    def _count(self, _failure: TransientFailure) -> None:
        self._inner.traffic.retries += 1
