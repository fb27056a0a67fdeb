"""The store: passes calls to the reader and the committer, and runs the background tasks."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.clock import boot_seconds
from headwater.errors import SessionLost, StoreError
from headwater.meta.feed import ChangeFeed, Item
from headwater.meta.postgres.address import PostgresAddress, parse_postgres_address
from headwater.meta.postgres.committer import PostgresCommitter
from headwater.meta.postgres.connections import PostgresConnections, connect
from headwater.meta.postgres.failures import translated, translated_at_start
from headwater.meta.postgres.reader import PostgresReader
from headwater.meta.postgres.schema import migrate
from headwater.meta.postgres.session_expiry import SessionRow
from headwater.meta.postgres.wakeups import Wakeups
from headwater.meta.renewal_thread import RenewalThread
from headwater.meta.sessions import RENEWALS_PER_TTL, RenewedSession
from headwater.meta.store import CommitResult, Decide, Entry, KeyChange, Limits, Scan, Session, T

if TYPE_CHECKING:
    import asyncpg

log = logging.getLogger(__name__)

READ_CONNECTIONS = 4
RETRY_SECONDS = 0.25
TRIM_SECONDS = 10.0
KEPT_REVISIONS = 50_000
KEPT_CHANGE_BYTES = 64 * 2**20
LIMITS = Limits()

OPEN_SESSION = "INSERT INTO session (id, ttl) VALUES ($1, $2) RETURNING id"
RENEW_SESSION = "UPDATE session SET renewed = clock_timestamp() WHERE id = $1 RETURNING id"
END_SESSION = "SELECT * FROM end_sessions(ARRAY[$1])"
END_SILENT_SESSIONS = "SELECT * FROM end_silent_sessions($1, $2)"
TRIM = "SELECT trim_changes($1, $2)"


class PostgresStore:
    """A ``MetadataStore`` in one schema of a database; open it with ``PostgresStore.open``.

    Any number of stores, on any number of hosts, may share the schema. All transactions of a
    schema are serialised, even across domains.
    """

    def __init__(self, address: PostgresAddress, revision: int) -> None:
        self._label = address.label
        self._write_connections = PostgresConnections(address, 1)
        self._read_connections = PostgresConnections(address, READ_CONNECTIONS)
        self._renewal_connections = PostgresConnections(address, 1)
        self._renewal_thread = RenewalThread()
        self._reader = PostgresReader(self._read_connections, address)
        self._feed = ChangeFeed(revision, read=self._reader.changes, last=self._reader.revision)
        self._committer = PostgresCommitter(self._write_connections, address, self._publish)
        self._changed = asyncio.Event()
        self._expired: asyncio.Queue[list[SessionRow]] = asyncio.Queue(1)
        self._wakeups = Wakeups(address, changed=self._changed.set, expired=self._queue_expired)
        self._sessions: set[RenewedSession] = set()
        self._tasks = [
            asyncio.create_task(work)
            for work in (
                self._committer.run(),
                self._wakeups.run(),
                self._feed.follow(self._changed, RETRY_SECONDS),
                self._sweep_sessions(),
                self._trim_changes(),
            )
        ]

    @classmethod
    async def open(cls, url: str) -> "PostgresStore":
        """Connect, and create or upgrade the tables if necessary.

        Raises ``ConfigurationError``, ``UnknownFormat`` or ``StoreUnavailable``.
        """
        address = parse_postgres_address(url)
        with translated_at_start(address.label):
            connection = await connect(address)
            try:
                await migrate(connection, address)
                revision = await connection.fetchval("SELECT revision FROM head")
            finally:
                connection.terminate()
        return cls(address, revision)

    @property
    def limits(self) -> Limits:
        return LIMITS

    async def get(self, key: str) -> Entry | None:
        return await self._reader.get(key)

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        return await self._reader.scan(start, end, limit, reverse=reverse)

    def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        return self._reader.scan_pages(start, end, size)

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        return await self._committer.transact(keys, decide)

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return self._feed.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        name = str(uuid.uuid4())
        lease = timedelta(seconds=ttl)
        opened = boot_seconds()
        await self._call(OPEN_SESSION, name, lease)

        async def renew() -> None:
            # If the connection is dead, time for another attempt remains.
            within = ttl / RENEWALS_PER_TTL
            with translated(self._label):
                async with self._renewal_connections.held() as connection:
                    renewed = await connection.fetch(RENEW_SESSION, name, timeout=within)
            if not renewed:
                raise SessionLost(f"session {name} has ended")

        async def end() -> None:
            self._sessions.discard(session)
            await self._end_sessions(END_SESSION, name)

        session = RenewedSession(
            name,
            ttl=ttl,
            opened=opened,
            now=boot_seconds,
            renew=renew,
            end=end,
            thread=self._renewal_thread,
        )
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Disconnect; open sessions expire after their ttl."""
        for session in list(self._sessions):
            await session.abandon()
        await self._renewal_thread.stop(self._renewal_connections.close)
        self._committer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.close()
        await self._write_connections.close()
        await self._read_connections.close()

    def _publish(self, revision: int, items: list[Item]) -> None:
        if not self._feed.committed(revision, items):
            self._changed.set()
        self._wakeups.committed(revision)

    async def _sweep_sessions(self) -> None:
        while True:
            expired = await self._expired.get()
            names, versions = [each.id for each in expired], [each.version for each in expired]
            try:
                await self._end_sessions(END_SILENT_SESSIONS, names, versions)
            except StoreError as error:
                log.warning("Could not end expired metadata sessions", extra={"error": error})

    async def _trim_changes(self) -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            try:
                await self._call(TRIM, KEPT_REVISIONS, KEPT_CHANGE_BYTES)
            except StoreError as error:
                log.warning("Could not trim old metadata changes", extra={"error": error})

    def _queue_expired(self, expired: list[SessionRow]) -> None:
        if not self._expired.full():  # each poll reports a session again until it has ended
            self._expired.put_nowait(expired)

    async def _end_sessions(self, statement: str, *arguments: object) -> None:
        """End sessions and delete their keys."""
        ((revision, gone),) = await self._call(statement, *arguments)
        if revision is not None:
            self._publish(revision, [(key, None) for key in gone])

    async def _call(self, statement: str, *arguments: object) -> list["asyncpg.Record"]:
        with translated(self._label):
            async with self._read_connections.held() as connection:
                return await connection.fetch(statement, *arguments)
