"""Opens connections and sets their options.

The options suit the statements of this store only; do not run other statements on them.
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

OLDEST_VERSION = 14
CONNECT_SECONDS = 5.0
CALL_SECONDS = 10.0
CLOSE_SECONDS = 1.0
LOCK_SECONDS = 5.0
IDLE_IN_TRANSACTION_SECONDS = 2.0
TRANSACTION_SECONDS = 8.0

SETTINGS = {
    "application_name": "headwater",
    "default_transaction_isolation": "read committed",
    # A broker that is paused inside a transaction loses its lock before the lock timeout of the
    # other brokers, and that timeout ends before their calls time out.
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
    # Every statement reads by key. A plan that was made for a small table must not scan it later.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    # Keeps idle timeouts in the network from closing a connection silently.
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
        # A replica may lag behind the primary.
        "target_session_attrs": SessionAttribute.read_write,
    }


async def connect(address: PostgresAddress) -> "Connection":
    """Open a connection. Raises what asyncpg raises, and ``ConfigurationError``."""
    connecting = asyncio.ensure_future(asyncpg.connect(**_options(address)))
    try:
        connection: Connection = await asyncio.shield(connecting)
    except asyncio.CancelledError:
        # If its checks are interrupted, asyncpg leaks the connection.
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
    """A pool of up to ``size`` connections, opened on demand and replaced after a failure."""

    def __init__(self, address: PostgresAddress, size: int) -> None:
        self._address = address
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator["Connection"]:
        """Borrow a connection; it is closed if the block raises.

        Raises ``StoreUnavailable`` after ``close``, and what ``connect`` raises.
        """
        async with self._slots:
            if self._closed:
                raise StoreUnavailable("the metadata store is closed")
            connection = self._idle_connection() or await connect(self._address)
            try:
                yield connection
            except BaseException as error:
                connection.terminate()
                if isinstance(error, TimeoutError):  # the others are probably dead too
                    while self._idle:
                        self._idle.pop().terminate()
                raise
            if self._closed:
                connection.terminate()
            else:
                self._idle.append(connection)

    async def close(self) -> None:
        """Close idle connections now, and borrowed ones when they are returned."""
        self._closed = True
        for connection in self._idle:
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except ERRORS:
                connection.terminate()
        # The event loop releases a lost connection in its next iteration.
        await asyncio.sleep(0)

    def _idle_connection(self) -> "Connection | None":
        while self._idle:
            if not (connection := self._idle.pop()).is_closed():
                return connection
        return None


async def _prepare(connection: "Connection") -> None:
    if connection.get_server_version().major < OLDEST_VERSION:
        raise ConfigurationError(
            f"PostgreSQL {connection.get_server_version().major} is too old; "
            f"Headwater needs {OLDEST_VERSION} or later"
        )
    await connection.fetch(PREPARE)
