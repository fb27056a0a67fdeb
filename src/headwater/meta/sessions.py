"""A session that its own process keeps alive.

The store holds the truth: a session whose expiry has passed there is gone, and a renewal of it
is refused. This side errs towards *lost*: once ``ttl`` has passed since the start of the last
renewal that succeeded, the session counts as lost even where the store could not be asked, so
that a process which was paused past its ``ttl`` sees it on its first look.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf

from headwater.errors import SessionLost, StoreError

RENEWALS_PER_TTL = 3
RETRIES_PER_TTL = 20


class RenewedSession:
    """The ``Session`` of every backend whose leases are renewed by a call.

    ``renew`` raises ``SessionLost`` where the store has ended the session; any other
    ``StoreError`` is tried again until ``ttl`` has passed. ``end`` deletes the session and its
    keys. ``opened`` is ``loop.time()`` from before the session was created.
    """

    def __init__(
        self,
        session_id: str,
        *,
        ttl: float,
        opened: float,
        renew: Callable[[], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._id = session_id
        self._ttl = ttl
        self._deadline = opened + ttl
        self._renew = renew
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._renewals = self._loop.create_task(self._renew_until_lost())

    @property
    def id(self) -> str:
        return self._id

    @property
    def lost(self) -> bool:
        return self._gone.is_set() or self._loop.time() >= self._deadline

    @property
    def valid_until(self) -> float:
        return -inf if self._gone.is_set() else self._deadline

    async def wait_lost(self) -> None:
        await self._gone.wait()

    async def close(self) -> None:
        """End the session in the store; an ended one is closed without an error."""
        await self.abandon()
        self._gone.set()
        await self._end()

    async def abandon(self) -> None:
        """Stop renewing, as a crash would: the store ends the session when its ttl has passed."""
        self._renewals.cancel()
        await asyncio.gather(self._renewals, return_exceptions=True)

    async def _renew_until_lost(self) -> None:
        pause = self._ttl / RENEWALS_PER_TTL
        while True:
            await asyncio.sleep(min(pause, max(0.0, self._deadline - self._loop.time())))
            started = self._loop.time()
            try:
                async with asyncio.timeout_at(self._deadline):
                    await self._renew()
            except (SessionLost, TimeoutError):
                break
            except StoreError:
                if self._loop.time() >= self._deadline:
                    break
                pause = self._ttl / RETRIES_PER_TTL
            else:
                self._deadline = started + self._ttl
                pause = self._ttl / RENEWALS_PER_TTL
        self._gone.set()
