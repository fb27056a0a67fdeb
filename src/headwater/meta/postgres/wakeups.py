"""NOTIFY and LISTEN, and polling in case a notification is lost, on a separate connection.

A notification carries no data; the changes are read from the change table. It is sent after the
commit and not inside the transaction, because PostgreSQL serialises the commits of transactions
that notify. If a notification is lost, the change is found ``POLL_SECONDS`` later.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from headwater.clock import boot_seconds
from headwater.errors import StoreError
from headwater.meta.postgres.address import PostgresAddress
from headwater.meta.postgres.connections import connect
from headwater.meta.postgres.failures import translated
from headwater.meta.postgres.session_expiry import SessionExpiry, SessionRow

if TYPE_CHECKING:
    from headwater.meta.postgres.connections import Connection

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
RETRY_SECONDS = 0.5

POLL = """
SELECT head.revision,
  ARRAY(SELECT (id, xmin::text, extract(epoch FROM ttl)::float8) FROM session)
FROM head
"""
Expired = Callable[[list[SessionRow]], None]
NOTIFY = "SELECT pg_notify($1, '')"


class Wakeups:
    """Calls ``changed`` when another process may have committed, and ``expired`` with sessions that
    were not renewed in time. Keep ``run`` in a task; it reconnects after an error.
    """

    def __init__(
        self, address: PostgresAddress, *, changed: Callable[[], None], expired: Expired
    ) -> None:
        self._address = address
        self._channel = f"headwater_{address.schema}"[:63]
        self._changed = changed
        self._expired = expired
        self._sessions = SessionExpiry(boot_seconds)
        self._to_notify = asyncio.Event()
        self._last_revision = -1

    def committed(self, revision: int) -> None:
        """Notify the other processes soon of a revision that this process committed."""
        self._last_revision = max(self._last_revision, revision)
        self._to_notify.set()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except StoreError as error:
                log.warning("Could not listen for metadata changes", extra={"error": error})
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        with translated(self._address.label):
            connection = await connect(self._address)
            try:
                own = connection.get_server_pid()
                await connection.add_listener(
                    self._channel, lambda _, sender, *rest: sender != own and self._changed()
                )
                while True:
                    await self._poll(connection)
                    await self._notify(connection)
            finally:
                connection.terminate()

    async def _poll(self, connection: "Connection") -> None:
        revision, sessions = (await connection.fetch(POLL))[0]
        if revision > self._last_revision:
            self._last_revision = revision
            self._changed()
        if ended := self._sessions.expired(SessionRow(*each) for each in sessions):
            self._expired(ended)

    async def _notify(self, connection: "Connection") -> None:
        """Send notifications until it is time to poll again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + POLL_SECONDS
        while loop.time() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._to_notify.wait()
            if self._to_notify.is_set():
                self._to_notify.clear()
                await connection.fetch(NOTIFY, self._channel)
