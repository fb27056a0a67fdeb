"""Objects in a dictionary, for tests, simulation and ``memory://``; lost with the process."""

from collections.abc import AsyncIterator, Sequence

from headwater.clock import Clock
from headwater.errors import ObjectNotFound, ObjectStoreUnavailable
from headwater.objects.object_keys import check_key, check_range, directory_of
from headwater.objects.store import Buffer, GrowingObject, ObjectInfo, Traffic


class MemoryObjects:
    """An ``ObjectStore`` that never waits, never fails and starts no thread."""

    def __init__(self, *, clock: Clock, id: str = "memory") -> None:  # noqa: A002
        self.id = id
        self.traffic = Traffic()
        self._clock = clock
        self._objects: dict[str, tuple[bytes, int]] = {}

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        check_key(key)
        self.traffic.puts += 1
        data = b"".join(parts)
        self.traffic.bytes_written += len(data)
        self._objects.setdefault(key, (data, self._clock.now_ms()))

    def grow(self, key: str) -> GrowingObject | None:
        check_key(key)
        return _GrowingBytes(self, key)

    def add(self, key: str, parts: Sequence[Buffer]) -> None:
        """Append to an object, which is created empty."""
        self.traffic.puts += 1
        data = b"".join(parts)
        self.traffic.bytes_written += len(data)
        there, created = self._objects.get(key, (b"", self._clock.now_ms()))
        self._objects[key] = (there + data, created)

    async def get(self, key: str) -> bytearray:
        return self._count(bytearray(self._find(key)))

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        check_range(start, length)
        data = self._find(key)
        if start + length > len(data):
            raise ObjectStoreUnavailable(
                f"{key} has {len(data)} bytes; bytes {start} to {start + length} were requested"
            )
        return self._count(bytearray(memoryview(data)[start : start + length]))

    async def delete(self, key: str) -> None:
        check_key(key)
        self.traffic.deletes += 1
        self._objects.pop(key, None)

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        directory_of(prefix)
        self.traffic.lists += 1
        for key in sorted(key for key in self._objects if key.startswith(prefix)):
            if found := self._objects.get(key):
                yield ObjectInfo(key, len(found[0]), found[1])

    async def close(self) -> None:
        """Does nothing; the objects stay readable."""

    def _find(self, key: str) -> bytes:
        check_key(key)
        self.traffic.gets += 1
        try:
            return self._objects[key][0]
        except KeyError:
            raise ObjectNotFound(f"no object {key} in memory") from None

    def _count(self, data: bytearray) -> bytearray:
        self.traffic.bytes_read += len(data)
        return data


class _GrowingBytes:
    def __init__(self, objects: MemoryObjects, key: str) -> None:
        self._objects = objects
        self.key = key
        self.size = 0

    async def append(self, parts: Sequence[Buffer]) -> int:
        position = self.size
        self.size += sum(map(len, parts))
        self._objects.add(self.key, parts)
        return position

    async def close(self) -> None:
        """Does nothing."""
