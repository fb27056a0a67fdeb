"""NOTIFY and LISTEN, and what is looked at from time to time, on a connection of their own.

A notification only wakes; what changed is read from the change table. It is sent after the
commit and not inside it, because PostgreSQL lets one committing transaction with notifications
through at a time. One that is lost costs a watch one interval of looking.
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

LOOK_SECONDS = 0.25
RETRY_SECONDS = 0.5

LOOK = """
SELECT head.revision,
  ARRAY(SELECT (id, xmin::text, extract(epoch FROM ttl)::float8) FROM session)
FROM head
"""
Expired = Callable[[list[SessionRow]], None]
NOTIFY = "SELECT pg_notify($1, '')"


class Wakeups:
    """Calls ``changed`` when another process may have committed, ``silent`` with sessions that were
    not renewed in time; ``run`` is its task, and it finds its way back after a lost connection.
    """

    def __init__(
        self, address: PostgresAddress, *, changed: Callable[[], None], silent: Expired
    ) -> None:
        self._address = address
        self._channel = f"headwater_{address.schema}"[:63]
        self._changed = changed
        self._silent = silent
        self._sessions = SessionExpiry(boot_seconds)
        self._to_tell = asyncio.Event()
        self._seen = -1

    def committed(self, revision: int) -> None:
        """Wake the others for a revision of this process, soon."""
        self._seen = max(self._seen, revision)
        self._to_tell.set()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except StoreError as error:
                log.warning("metadata changes are not listened for: %s", error)
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
                    await self._look(connection)
                    await self._tell(connection)
            finally:
                connection.terminate()

    async def _look(self, connection: "Connection") -> None:
        revision, sessions = (await connection.fetch(LOOK))[0]
        if revision > self._seen:
            self._seen = revision
            self._changed()
        if ended := self._sessions.look(SessionRow(*each) for each in sessions):
            self._silent(ended)

    async def _tell(self, connection: "Connection") -> None:
        """Send what there is to tell until it is time to look again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LOOK_SECONDS
        while loop.time() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._to_tell.wait()
            if self._to_tell.is_set():
                self._to_tell.clear()
                await connection.fetch(NOTIFY, self._channel)
