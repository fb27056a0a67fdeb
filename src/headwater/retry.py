"""Retries of operations that may succeed in a moment."""

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
    """Pauses between attempts, in seconds: each is twice the previous one, up to ``longest``."""

    first: float
    longest: float
    attempts: int | None = None
    """Maximum number of attempts; None means no limit."""
    total: float = inf
    """No attempt begins later than this many seconds after the first one."""
    jitter: tuple[float, float] = (0.5, 1.5)
    """Bounds of the random number by which each pause is multiplied."""

    def pauses(
        self, random: Random | None = None, now: Callable[[], float] | None = None
    ) -> Iterator[float]:
        """The pauses before the second attempt, the third, and so on.

        Without ``random`` there is no jitter. ``total`` counts from this call on the clock ``now``,
        and has no effect without it.

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
    """Call ``attempt`` until it returns, or raises another error than those in ``on``.

    ``failed`` is called with each error before the next attempt. If ``pauses`` has ended, the last
    error is raised.
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
