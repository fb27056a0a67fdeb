"""Prefetch of object ranges.

Even a small GET takes tens of milliseconds, and a range may consist of thousands of small
chunks. Without prefetch a core would mostly wait.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

REQUESTS: Final = 8
AHEAD_BYTES: Final = 32 * 2**20
"""Maximum prefetched bytes."""

Range: TypeAlias = tuple[str, int, int]
"""An object key, a position and a length."""


class ReadAhead:
    """Prefetches expected ranges with ``read`` on threads."""

    def __init__(self, read: Callable[[str, int, int], bytearray]) -> None:
        self._read = read
        self._threads = ThreadPoolExecutor(REQUESTS, "headwater-ahead")
        self._planned: deque[Range] = deque()
        self._under_way: dict[Range, Future[bytearray]] = {}

    def expect(self, ranges: Iterable[Range]) -> None:
        """Replace the expected ranges; they will be taken in this order."""
        self._forget()
        self._planned.extend(ranges)
        self._begin()

    def take(self, wanted: Range) -> bytearray:
        """The bytes of a range, prefetched or not. Raises what ``read`` raises."""
        found = self._under_way.pop(wanted, None)
        self._begin()
        return self._read(*wanted) if found is None else found.result()

    def close(self) -> None:
        self._forget()
        self._threads.shutdown()

    def _begin(self) -> None:
        ahead = sum(length for _, _, length in self._under_way)
        while self._planned and len(self._under_way) < REQUESTS and ahead < AHEAD_BYTES:
            following = self._planned.popleft()
            ahead += following[2]
            self._under_way[following] = self._threads.submit(self._read, *following)

    def _forget(self) -> None:
        self._planned.clear()
        for future in self._under_way.values():
            future.cancel()
        self._under_way.clear()
