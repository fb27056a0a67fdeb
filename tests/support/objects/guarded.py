"""An object store whose every request goes through one function."""

from collections.abc import AsyncIterator, Sequence

from headwater.objects.store import Buffer, DeletableObjects, GrowingObject, ObjectInfo, Traffic
from tests.support.meta.guarded import Interference


class GuardedObjects:
    def __init__(self, store: DeletableObjects, guard: Interference) -> None:
        self._store = store
        self._guard = guard

    @property
    def id(self) -> str:
        return self._store.id

    @property
    def traffic(self) -> Traffic:
        return self._store.traffic

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        await self._guard(lambda: self._store.put(key, parts))

    def grow(self, key: str) -> GrowingObject | None:
        inner = self._store.grow(key)
        return None if inner is None else GuardedGrowth(inner, self._guard)

    async def get(self, key: str) -> bytearray:
        return await self._guard(lambda: self._store.get(key))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        return await self._guard(lambda: self._store.get_range(key, start, length))

    async def delete(self, key: str) -> None:
        await self._guard(lambda: self._store.delete(key))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for info in self._store.list(prefix):
            yield info

    async def close(self) -> None:
        await self._store.close()


class GuardedGrowth:
    def __init__(self, inner: GrowingObject, guard: Interference) -> None:
        self._inner = inner
        self._guard = guard

    @property
    def key(self) -> str:
        return self._inner.key

    @property
    def size(self) -> int:
        return self._inner.size

    async def append(self, parts: Sequence[Buffer]) -> int:
        return await self._guard(lambda: self._inner.append(parts))

    async def close(self) -> None:
        await self._inner.close()
