"""What one request may cost before it yields the event loop, moves to a thread or is refused.

A client chooses the size of a request, and all clients of a broker share one event loop. So each
handler keeps three rules, whose limits are defined here:

- It yields the loop after ``TURN_ELEMENTS`` array elements (``in_turns``, ``Turn``).
- It does work on more than ``TURN_BYTES`` bytes in the executor (``needs_thread``).
- It refuses a request above a maximum, with a Kafka error, before it does any of the work.

A turn that blocks the loop for ``SLOW_TURN_SECONDS`` or longer is logged with its API.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

TURN_ELEMENTS: Final = 500
"""Array elements that a handler processes in one turn of the loop: about 5 ms at 10 us each."""
TURN_BYTES: Final = 256 * 1024
"""Bytes that a handler may decompress, parse or hash on the loop: about 1 ms."""
CONCURRENT: Final = 64
"""Most items of one request that are processed concurrently, each in its own task."""
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Partitions that one request may create, as in Kafka."""
MAX_DESCRIBED_CONFIGS: Final = 500_000
"""Configurations that one request may describe: about 20 MB of reply. A configuration counts once,
once more with its synonyms, and three times more with its documentation."""
MAX_SESSION_PARTITIONS: Final = 100_000
"""Partitions in all fetch sessions of a broker; about 400 bytes each."""
TURN_SECONDS: Final = 0.01
"""A connection that starts many small requests yields to other connections after this time."""
SLOW_TURN_SECONDS: Final = 0.25
"""A turn of this length is a defect of the broker, because it delays every other client."""


def needs_thread(size: int) -> bool:
    """Whether work on ``size`` uncompressed bytes must run in the executor."""
    return size > TURN_BYTES


async def yield_turn() -> None:
    """Let all other ready callbacks and tasks run once."""
    await asyncio.sleep(0)


class Turn:
    """Counts the work of the current turn.

    ``if turn.spend(n): await yield_turn()`` bounds the turns of a loop over elements of unequal
    cost.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = TURN_ELEMENTS

    def spend(self, elements: int = 1) -> bool:
        """Count ``elements``. True if the turn is used up; the next call counts for a new turn."""
        self._left -= elements
        if self._left > 0:
            return False
        self._left = TURN_ELEMENTS
        return True


async def in_turns(items: Iterable[T], elements: int = TURN_ELEMENTS) -> AsyncIterator[T]:
    """The same items in the same order; yields the loop after every ``elements`` items."""
    left = elements
    for item in items:
        if left == 0:
            await yield_turn()
            left = elements
        left -= 1
        yield item


async def gather_in_turns(
    items: Sequence[T], work: Callable[[T], Awaitable[R]], concurrent: int = CONCURRENT
) -> list[R]:
    """Run ``work`` for each item, ``concurrent`` at a time. The results are in the items' order.

    Raises the first exception that ``work`` raises.
    """
    results: list[R] = []
    for start in range(0, len(items), concurrent):
        if start:
            await yield_turn()
        results += await asyncio.gather(*map(work, items[start : start + concurrent]))
    return results
