"""Opening connections, and their settings.

They are made for this store's own statements: nothing else may be run on them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from headwater.errors import ConfigurationError, StoreUnavailable
from headwater.meta.postgres.address import PostgresAddress
from headwater.meta.postgres.failures import ERRORS

OLDEST_SERVER = 14
CONNECT_SECONDS = 5.0
CALL_SECONDS = 10.0
CLOSE_SECONDS = 1.0
LOCK_SECONDS = 5.0
IDLE_IN_TRANSACTION_SECONDS = 2.0
TRANSACTION_SECONDS = 8.0

SETTINGS = {
    "application_name": "headwater",
    "default_transaction_isolation": "read committed",
    # A broker that is paused inside a transaction loses its lock before others give up on it,
    # and those learn that nothing was written before their call times out.
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    # Every statement looks keys up. A plan made while a table was small must not scan it later.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    # Nobody's idle time-out in the network may cut a connection silently.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
}

PREPARE = f"""
SELECT set_config('synchronous_commit', 'on', false)
  WHERE current_setting('synchronous_commit') = 'off'
UNION ALL
SELECT set_config('transaction_timeout', '{TRANSACTION_SECONDS}s', false)
  WHERE current_setting('server_version_num')::integer >= 170000
"""

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


def _options(address: PostgresAddress) -> dict[str, Any]:
    return {
        "dsn": address.dsn,
        "timeout": CONNECT_SECONDS,
        "command_timeout": CALL_SECONDS,
        "max_cached_statement_lifetime": 0,
        "server_settings": SETTINGS | {"search_path": address.schema},
        # A replica may lag, and this store must not.
        "target_session_attrs": SessionAttribute.read_write,
    }


async def connect(address: PostgresAddress) -> "Connection":
    """A connection of its own. Raises what asyncpg raises, and ``ConfigurationError``."""
    connecting = asyncio.ensure_future(asyncpg.connect(**_options(address)))
    try:
        connection: Connection = await asyncio.shield(connecting)
    except asyncio.CancelledError:
        # asyncpg forgets a connection whose checks are interrupted.
        await asyncio.wait([connecting])
        if connecting.exception() is None:
            connecting.result().terminate()
        raise
    try:
        await _prepare(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


class PostgresConnections:
    """Up to ``size`` connections, made when they are needed and replaced when they are lost."""

    def __init__(self, address: PostgresAddress, size: int) -> None:
        self._address = address
        self._room = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator["Connection"]:
        """A connection for one use; it is ended where that fails, whatever its state.

        Raises ``StoreUnavailable`` after ``close``, and what ``connect`` raises.
        """
        async with self._room:
            if self._closed:
                raise StoreUnavailable("the metadata store is closed")
            connection = self._alive() or await connect(self._address)
            try:
                yield connection
            except BaseException as error:
                connection.terminate()
                if isinstance(error, TimeoutError):  # what cut this one off cut off the others
                    while self._idle:
                        self._idle.pop().terminate()
                raise
            if self._closed:
                connection.terminate()
            else:
                self._idle.append(connection)

    async def close(self) -> None:
        """End what is idle; what is in use ends after it."""
        self._closed = True
        for connection in self._idle:
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except ERRORS:
                connection.terminate()
        # A connection that was cut is let go by the loop's next turn.
        await asyncio.sleep(0)

    def _alive(self) -> "Connection | None":
        while self._idle:
            if not (connection := self._idle.pop()).is_closed():
                return connection
        return None


async def _prepare(connection: "Connection") -> None:
    if connection.get_server_version().major < OLDEST_SERVER:
        raise ConfigurationError(
            f"PostgreSQL {connection.get_server_version().major} is too old for the metadata: "
            f"{OLDEST_SERVER} or later is needed"
        )
    await connection.fetch(PREPARE)
