"""A session that its own process renews.

The store decides when a session has expired, and then refuses to renew it. The process treats
its session as lost earlier rather than later: as soon as ``ttl`` seconds have passed since the
start of the last successful renewal, even if the store could not be reached. A process that was
paused for longer than ``ttl`` therefore sees that the session is lost before it acts on it.

The clock is ``now``. Stores outside of this process use the boot clock, because it does not stop
while the machine is suspended and is read on every call; neither is true of ``loop.time()``. The
memory store, and so the simulation, uses the time of its event loop.

With a ``RenewalThread`` the session is renewed even while a request blocks the owner's event
loop. A process whose loop is blocked for good must lose its keys, however: if the loop has not
run for ``MAX_BLOCKED_TTLS`` times ``ttl``, renewals stop and the store ends the session within
``ttl`` seconds.
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
MAX_BLOCKED_TTLS: Final = 3
"""Renewals stop if the owner's event loop has not run for this many times ``ttl``."""


class RenewedSession:
    """The ``Session`` of every backend whose leases are renewed by a call.

    ``renew`` raises ``SessionLost`` if the store has ended the session; after any other
    ``StoreError`` it is called again until ``ttl`` seconds have passed. It runs on the event loop
    of ``thread``, or on the owner's loop without a thread. ``end`` deletes the session and its
    keys. ``opened`` is the value of ``now()`` before the session was created.
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
        self._lost_event = asyncio.Event()
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
        await self._lost_event.wait()

    async def close(self) -> None:
        """End the session in the store; it is no error if it has ended already."""
        await self.abandon()
        self._ended = True
        self._lost_event.set()
        await self._end()

    async def abandon(self) -> None:
        """Stop renewing, as after a crash: the store ends the session when its ttl has passed.

        A renewal that is running in another thread may still succeed.
        """
        self._renewals.cancel()
        await asyncio.gather(self._renewals, return_exceptions=True)

    async def _renew_until_lost(self) -> None:
        pause = self._ttl / RENEWALS_PER_TTL
        while True:
            await asyncio.sleep(min(pause, max(0.0, self.remaining)))
            if self._pulse and self._pulse.blocked_seconds() >= MAX_BLOCKED_TTLS * self._ttl:
                log.error(
                    "The event loop is blocked; giving up the session of this process",
                    extra={"blocked_seconds": MAX_BLOCKED_TTLS * self._ttl},
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
            self._lost_event.set()
        else:
            with suppress(
                RuntimeError
            ):  # the owner's loop is closed, so nothing waits for the event
                self._loop.call_soon_threadsafe(self._lost_event.set)


class LoopPulse:
    """Measures from any thread how long an event loop has been blocked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._scheduled_at: float | None = None

    def blocked_seconds(self) -> float:
        """Seconds since a callback was scheduled that has not run yet; schedules one if none is."""
        scheduled_at = self._scheduled_at
        if scheduled_at is not None:
            return self._now() - scheduled_at
        self._scheduled_at = self._now()
        try:
            self._loop.call_soon_threadsafe(self._clear)
        except RuntimeError:  # closed
            return inf
        return 0.0

    def _clear(self) -> None:
        self._scheduled_at = None
