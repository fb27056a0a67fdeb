"""Doing again what may succeed in a moment."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf
from random import Random
from typing import TypeVar

E = TypeVar("E", bound=Exception)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses between attempts, in seconds: each twice the last, up to the longest."""

    first: float
    longest: float
    attempts: int | None = None
    """How many are made at most; None: no limit."""
    total: float = inf
    """No attempt begins later than this after the first one."""
    jitter: tuple[float, float] = (0.5, 1.5)
    """Each pause is multiplied by a random number between these."""

    def pauses(
        self, random: Random | None = None, now: Callable[[], float] | None = None
    ) -> Iterator[float]:
        """The pauses before the second attempt, the third, and so on.

        Without ``random`` there is no jitter. ``total`` counts from this call by ``now``.

        >>> list(Backoff(first=1, longest=5, attempts=6).pauses())
        [1, 2, 4, 5, 5]
        """
        deadline = inf if now is None else now() + self.total

        def made() -> Iterator[float]:
            pause = self.first
            while True:
                jittered = pause if random is None else pause * random.uniform(*self.jitter)
                if now is not None and now() + jittered > deadline:
                    return
                yield jittered
                pause = min(2 * pause, self.longest)

        return made() if self.attempts is None else islice(made(), self.attempts - 1)


async def retry(
    attempt: Callable[[], Awaitable[T]],
    *,
    on: type[E] | tuple[type[E], ...],
    pauses: Iterator[float],
    failed: Callable[[E], None] = lambda _: None,
) -> T:
    """Make attempts until one ends other than with an error of ``on``.

    ``failed`` gets each error that another attempt follows. Raises the last one where there is no
    pause left.
    """
    while True:
        try:
            return await attempt()
        except on as error:
            pause = next(pauses, None)
            if pause is None:
                raise
            failed(error)
        await asyncio.sleep(pause)
