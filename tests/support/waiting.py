"""Waiting for what becomes true, in place of sleeping for a time that a busy machine may exceed."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

LIMIT_SECONDS = 30.0
PAUSE_SECONDS = 0.05


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]],
    *,
    seconds: float = LIMIT_SECONDS,
    pause: float = PAUSE_SECONDS,
) -> None:
    """Return when it holds, looking every ``pause``; fail if it does not within ``seconds``."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return
        assert loop.time() < deadline, f"it did not come true within {seconds} s"
        await asyncio.sleep(pause)


def wait_until(holds: Callable[[], bool], *, seconds: float = LIMIT_SECONDS) -> None:
    """The same for a test without an event loop."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true within {seconds} s"
        time.sleep(PAUSE_SECONDS)
