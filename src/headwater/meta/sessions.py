"""A session that its own process keeps alive.

The store holds the truth: a session whose expiry has passed there is gone, and a renewal of it
is refused. This side errs towards *lost*: once ``ttl`` has passed since the start of the last
renewal that succeeded, the session counts as lost even where the store could not be asked, so
that a process which was paused past its ``ttl`` sees it on its first look.

Time is ``now``: for stores outside of this process the boot clock, which counts a suspended
machine and is read anew at each look; ``loop.time()`` does neither. The memory store, and so the
simulation, uses its loop's time.

With a ``RenewalThread`` renewals go on while a request holds the owner's event loop. A process
whose loop is stuck for good must not keep its keys: renewals stop when the owner's loop has not
run for ``MAX_HELD_TTLS`` times ``ttl``, and the store then ends the session within one ``ttl``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Final

from headwater.errors import SessionLost, StoreError
from headwater.meta.renewal_thread import RenewalThread

log = logging.getLogger(__name__)

RENEWALS_PER_TTL = 3
RETRIES_PER_TTL = 20
MAX_HELD_TTLS: Final = 3
"""Renewals stop if the owner's event loop has not run for this many times ``ttl``."""


class RenewedSession:
    """The ``Session`` of every backend whose leases are renewed by a call.

    ``renew`` raises ``SessionLost`` where the store has ended the session; any other
    ``StoreError`` is tried again until ``ttl`` has passed. It runs on the loop of ``thread``, or
    on the owner's without one. ``end`` deletes the session and its keys. ``opened`` is ``now()``
    from before the session was created.
    """

    def __init__(
        self,
        session_id: str,
        *,
        ttl: float,
        opened: float,
        now: Callable[[], float],
        renew: Callable[[], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
        thread: RenewalThread | None = None,
    ) -> None:
        self._id = session_id
        self._ttl = ttl
        self._now = now
        self._deadline = opened + ttl
        self._ended = False
        self._renew = renew
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._pulse = None if thread is None else LoopPulse(self._loop, now)
        self._renewals: asyncio.Future[None] = (
            self._loop.create_task(self._renew_until_lost())
            if thread is None
            else thread.start(self._renew_until_lost())
        )

    @property
    def id(self) -> str:
        return self._id

    @property
    def lost(self) -> bool:
        return self.remaining <= 0

    @property
    def remaining(self) -> float:
        return -inf if self._ended else self._deadline - self._now()

    async def wait_lost(self) -> None:
        await self._gone.wait()

    async def close(self) -> None:
        """End the session in the store; an ended one is closed without an error."""
        await self.abandon()
        self._ended = True
        self._gone.set()
        await self._end()

    async def abandon(self) -> None:
        """Stop renewing, as a crash would: the store ends the session when its ttl has passed.

        A renewal that is under way in another thread may still land.
        """
        self._renewals.cancel()
        await asyncio.gather(self._renewals, return_exceptions=True)

    async def _renew_until_lost(self) -> None:
        pause = self._ttl / RENEWALS_PER_TTL
        while True:
            await asyncio.sleep(min(pause, max(0.0, self.remaining)))
            if self._pulse and self._pulse.held_seconds() >= MAX_HELD_TTLS * self._ttl:
                log.error(
                    "The event loop has not run for %.0f s: this process gives its session up",
                    MAX_HELD_TTLS * self._ttl,
                )
                break
            started = self._now()
            try:
                async with asyncio.timeout(self._deadline - started):
                    await self._renew()
            except (SessionLost, TimeoutError):
                break
            except StoreError:
                if self._now() >= self._deadline:
                    break
                pause = self._ttl / RETRIES_PER_TTL
            else:
                self._deadline = started + self._ttl
                pause = self._ttl / RENEWALS_PER_TTL
        self._ended = True
        if self._pulse is None:
            self._gone.set()
        else:
            with suppress(RuntimeError):  # the owner's loop was closed: nobody waits
                self._loop.call_soon_threadsafe(self._gone.set)


class LoopPulse:
    """Tells from any thread for how long a loop has not run, at no cost to a loop that does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._asked: float | None = None

    def held_seconds(self) -> float:
        """Time since the loop was asked to answer and has not; asks if nothing is unanswered."""
        asked = self._asked
        if asked is not None:
            return self._now() - asked
        self._asked = self._now()
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # closed
            return inf
        return 0.0

    def _answer(self) -> None:
        self._asked = None
