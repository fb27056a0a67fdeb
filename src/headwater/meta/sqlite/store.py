"""The store: passes calls to the threads of writer and reader, and runs the background tasks."""

import asyncio
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwater.clock import Clock, boot_seconds
from headwater.errors import StoreError, StoreGone
from headwater.meta.feed import ChangeFeed, Item
from headwater.meta.renewal_thread import RenewalThread
from headwater.meta.sessions import RenewedSession
from headwater.meta.sqlite.checkpointer import SqliteCheckpointer
from headwater.meta.sqlite.connection import prepare, side_directory
from headwater.meta.sqlite.peers import SqliteJournal, SqlitePeers
from headwater.meta.sqlite.reader import SqliteReader
from headwater.meta.sqlite.thread import SqliteThread
from headwater.meta.sqlite.writer import SqliteWriter
from headwater.meta.store import CommitResult, Decide, Entry, KeyChange, Limits, Scan, Session, T

log = logging.getLogger(__name__)

BUSY_SECONDS = 5.0
POLL_SECONDS = 0.05
SWEEP_SECONDS = 0.25
LIMITS = Limits()


class SqliteStore:
    """A ``MetadataStore`` on one file; open it with ``SqliteStore.open``.

    Any number of stores, in any number of processes of one host, may share the file. Domains do
    not matter here: all transactions of the file run one after another. If the file is deleted or
    replaced, the store soon refuses all calls: no other process would see its writes, and they
    would be lost with this process.
    """

    def __init__(self, path: Path, clock: Clock, connections: "_Connections") -> None:
        self._clock = clock
        self._path = path
        self._file = _identity(path)
        self._lost = False
        self._writer = connections.writer
        self._reader = connections.reader
        self._open_reader = connections.open_reader
        self._checkpointer = connections.checkpointer
        self._writing = SqliteThread("headwater-meta-write")
        self._reading = SqliteThread("headwater-meta-read")
        self._feed = ChangeFeed(
            connections.revision,
            read=lambda after: self._reading.run(self._reader.changes, after),
            last=lambda: self._reading.run(self._reader.revision),
        )
        self._changed = asyncio.Event()
        self._journal = SqliteJournal(path)
        self._peers = SqlitePeers(side_directory(path), self._changed.set)
        self._sessions: set[RenewedSession] = set()
        self._renewals = RenewalThread()
        self._poll()
        self._tasks = [
            asyncio.create_task(self._follow_peers()),
            asyncio.create_task(self._sweep_sessions()),
        ]

    @classmethod
    async def open(
        cls, path: Path, clock: Clock, *, busy_seconds: float = BUSY_SECONDS
    ) -> "SqliteStore":
        """Open the file; creates it if it is absent.

        Raises ``ConfigurationError``, ``UnknownFormat``, ``StorageFull`` or
        ``StoreUnavailable``, each with one line that says what is wrong and what to do.
        """
        return cls(path, clock, await asyncio.to_thread(_connect, path, busy_seconds))

    @property
    def limits(self) -> Limits:
        return LIMITS

    def _require_file(self) -> None:
        if self._lost:
            raise StoreGone(
                f"metadata database {self._path} was deleted or replaced under this process: "
                "put it back and start again, or run headwater restore"
            )

    async def get(self, key: str) -> Entry | None:
        self._require_file()
        return await self._reading.run(self._reader.get, key)

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        self._require_file()
        return await self._reading.run(self._reader.scan, start, end, limit, reverse=reverse)

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        # Needs its own connection and thread: its transaction stays open from page to page.
        self._require_file()
        worker = SqliteThread("headwater-meta-pages")
        reader = None
        try:
            reader = await worker.run(self._open_reader)
            revision = await worker.run(reader.begin_pages)
            while True:
                entries = await worker.run(reader.page, start, end, size)
                yield Scan(entries, revision)
                if len(entries) < size:
                    return
                start = entries[-1].key + "\0"
        finally:
            await worker.stop(lambda: None if reader is None else reader.close())

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        def publish(outcome: tuple[CommitResult[T], list[Item]]) -> None:
            self._publish((outcome[0].revision, outcome[1]))

        self._require_file()
        committed, _ = await self._writing.run_then(publish, self._writer.transact, keys, decide)
        return committed

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return self._feed.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        name = str(uuid.uuid4())
        opened = boot_seconds()
        await self._writing.run(self._writer.open_session, name, ttl, self._clock.now_ms())

        async def renew() -> None:
            await self._writing.run(self._writer.renew_session, name, ttl)

        async def end() -> None:
            self._sessions.discard(session)
            await self._writing.run_then(self._publish, self._writer.end_session, name)

        session = RenewedSession(
            name,
            ttl=ttl,
            opened=opened,
            now=boot_seconds,
            renew=renew,
            end=end,
            thread=self._renewals,
        )
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Finish the queued calls and close the file. Open sessions expire."""
        for session in list(self._sessions):
            await session.abandon()
        await self._renewals.stop()
        self._polling.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.close()
        await self._writing.stop(self._writer.close)
        await self._reading.stop(self._reader.close)
        self._peers.close()
        await asyncio.to_thread(self._checkpointer.close)

    def _publish(self, committed: tuple[int, list[Item]]) -> None:
        revision, items = committed
        if items:
            if not self._feed.committed(revision, items):
                self._changed.set()
            self._peers.wake()

    def _poll(self) -> None:
        # A plain timer is cheap: this runs 20 times a second, and is most of an idle broker's work.
        self._polling = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)
        if self._feed.watched and (self._feed.unread or self._journal.touched()):
            self._changed.set()

    async def _follow_peers(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._feed.watched:
                try:
                    await self._feed.catch_up()
                except StoreError as error:
                    log.warning("Could not read metadata changes", extra={"error": error})
                    await asyncio.sleep(POLL_SECONDS)
                    self._changed.set()

    async def _sweep_sessions(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._lost = self._lost or _identity(self._path) != self._file
            try:
                if await self._reading.run(self._reader.sessions_have_expired):
                    await self._writing.run_then(self._publish, self._writer.end_expired_sessions)
            except StoreError as error:
                log.warning("Could not end expired metadata sessions", extra={"error": error})


@dataclass(frozen=True, slots=True)
class _Connections:
    writer: SqliteWriter
    reader: SqliteReader
    open_reader: Callable[[], SqliteReader]
    checkpointer: SqliteCheckpointer
    revision: int


def _identity(path: Path) -> tuple[int, int] | None:
    """The device and inode of the file; None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _connect(path: Path, busy_seconds: float) -> _Connections:
    prepare(path, busy_seconds)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def now() -> tuple[float, str]:
        return boot_seconds(), boot

    writer = SqliteWriter(path, busy_seconds=busy_seconds, time=now)
    open_reader = partial(SqliteReader, path, busy_seconds=busy_seconds, time=now)
    reader = open_reader()
    if reader.sessions_have_expired():  # No process ran to end them.
        with suppress(StoreError):  # If the file is busy, a background task does it soon.
            writer.end_expired_sessions()
    return _Connections(writer, reader, open_reader, SqliteCheckpointer(path), reader.revision())
