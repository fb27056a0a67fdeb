"""What one request may cost before it yields the event loop, moves to a thread or is refused.

A client chooses how much is in a request, and every client of a broker shares one event loop.
So each handler keeps to three limits, and this is the one place that names them:

- it yields the loop after ``TURN_ELEMENTS`` array elements (``in_turns``, ``Turn``);
- it hands work on more than ``TURN_BYTES`` bytes to the executor (``needs_thread``);
- it refuses more than a named maximum, with a Kafka error, before it does any of the work.

A turn that holds the loop for ``SLOW_TURN_SECONDS`` in spite of that is logged with its API.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

TURN_ELEMENTS: Final = 500
"""Array elements that a handler takes in one turn of the loop: about 5 ms at 10 us each."""
TURN_BYTES: Final = 256 * 1024
"""Bytes that a handler may decompress, parse or hash on the loop: about 1 ms."""
CONCURRENT: Final = 64
"""Parts of one request that are worked on side by side, each in a task of its own."""
MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Partitions that one request may create, as in Kafka."""
MAX_DESCRIBED_CONFIGS: Final = 500_000
"""Configurations that one request may ask for, about 20 MB of reply. With its synonyms one counts
twice, with its documentation three times more."""
MAX_SESSION_PARTITIONS: Final = 100_000
"""Partitions that a broker remembers in all of its fetch sessions; about 400 bytes each."""
TURN_SECONDS: Final = 0.01
"""A connection with many small requests lets others have a turn after this time."""
SLOW_TURN_SECONDS: Final = 0.25
"""A turn that takes longer than this is a fault of the broker: it delays every other client."""


def needs_thread(size: int) -> bool:
    """Whether work on ``size`` bytes (uncompressed, if they are compressed) leaves the loop."""
    return size > TURN_BYTES


async def yield_turn() -> None:
    """Let everything else that is ready run once."""
    await asyncio.sleep(0)


class Turn:
    """Counts the work of the current turn.

    ``if turn.spend(n): await yield_turn()`` keeps a loop with elements of unequal cost in bounds.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = TURN_ELEMENTS

    def spend(self, elements: int = 1) -> bool:
        """Count ``elements``; True if the turn is used up, and then the next one begins."""
        self._left -= elements
        if self._left > 0:
            return False
        self._left = TURN_ELEMENTS
        return True


async def in_turns(items: Iterable[T], elements: int = TURN_ELEMENTS) -> AsyncIterator[T]:
    """The same items in the same order, with a yield of the loop after each ``elements``."""
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
    """``work`` on each item, ``concurrent`` at a time; the results in the order of the items.

    The first exception ends it.
    """
    results: list[R] = []
    for start in range(0, len(items), concurrent):
        if start:
            await yield_turn()
        results += await asyncio.gather(*map(work, items[start : start + concurrent]))
    return results
