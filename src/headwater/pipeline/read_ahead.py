"""Reading what comes next while a task works on what is there.

A chunk of a bucket takes tens of milliseconds to come, whatever its size, and a range may be
thousands of small chunks: one after the other they would keep a core waiting.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

REQUESTS: Final = 8
AHEAD_BYTES: Final = 32 * 2**20
"""How much may have come before it is asked for."""

Range: TypeAlias = tuple[str, int, int]
"""A key, a position in the object, and a length."""


class ReadAhead:
    """Calls ``read`` for expected ranges on threads, some of them ahead of their use."""

    def __init__(self, read: Callable[[str, int, int], bytearray]) -> None:
        self._read = read
        self._threads = ThreadPoolExecutor(REQUESTS, "headwater-ahead")
        self._planned: deque[Range] = deque()
        self._under_way: dict[Range, Future[bytearray]] = {}

    def expect(self, ranges: Iterable[Range]) -> None:
        """These are taken next, in this order; what was expected before is forgotten."""
        self._forget()
        self._planned.extend(ranges)
        self._begin()

    def take(self, wanted: Range) -> bytearray:
        """The bytes of a range, expected or not. Raises what ``read`` raises."""
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
