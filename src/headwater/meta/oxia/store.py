"""The store: passes calls to the reader and the committer, and runs the background tasks."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from random import Random

from headwater.clock import boot_seconds
from headwater.errors import StoreError
from headwater.meta.feed import ChangeFeed, Item
from headwater.meta.oxia.address import OxiaAddress
from headwater.meta.oxia.committer import LIMITS, OxiaCommitter
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import OxiaKeyspace
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.renewals import OxiaRenewals
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.sessions import OxiaSessions
from headwater.meta.oxia.shard import CALL_SECONDS, OxiaShard
from headwater.meta.oxia.trimmer import OxiaTrimmer, trims_after
from headwater.meta.renewal_thread import RenewalThread
from headwater.meta.sessions import RENEWALS_PER_TTL, RenewedSession
from headwater.meta.store import (
    CommitResult,
    Decide,
    Entry,
    KeyChange,
    Limits,
    Scan,
    Session,
    T,
    Writes,
)

log = logging.getLogger(__name__)

SWEEP_SECONDS = 5.0
RETRY_SECONDS = 0.25


class OxiaStore:
    """A ``MetadataStore`` in one shard of an Oxia cluster; open it with ``OxiaStore.open``.

    Any number of stores, in any number of processes, may share a prefix. All commits of a prefix
    are serialised, even across domains.
    """

    def __init__(
        self, shard: OxiaShard, following: asyncio.Task[None], prefix: str, revision: int
    ) -> None:
        random = Random()  # noqa: S311  for pauses, not for secrets
        self._shard = shard
        self._keyspace = OxiaKeyspace(prefix)
        self._reader = OxiaReader(shard, self._keyspace)
        self._committer = OxiaCommitter(shard, self._keyspace, self._reader, random, self._publish)
        self._session_records = OxiaSessions(shard, self._keyspace, self._committer)
        self._trimmer = OxiaTrimmer(shard, self._keyspace, self._reader, self._committer)
        self._feed = ChangeFeed(revision, read=self._reader.changes, last=self._reader.revision)
        self._changed = asyncio.Event()
        self._session_ended = asyncio.Event()
        self._trim_due = asyncio.Event()
        self._sessions: set[RenewedSession] = set()
        self._renewals = OxiaRenewals(shard, self._keyspace)
        self._renewal_thread = RenewalThread()
        work = (
            self._listen(),
            self._feed.follow(self._changed, RETRY_SECONDS),
            self._sweep(),
            self._trim(),
        )
        self._tasks = [following, *map(asyncio.create_task, work)]

    @classmethod
    async def open(cls, address: OxiaAddress) -> "OxiaStore":
        """Find the shard; raises ``StoreUnavailable`` if no server answers."""
        shard = OxiaShard(address)
        following = asyncio.create_task(shard.run())
        try:
            await shard.wait_found()
            revision = await OxiaReader(shard, OxiaKeyspace(address.prefix)).revision()
        except BaseException:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await shard.close()
            raise
        return cls(shard, following, address.prefix, revision)

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
        def plan(seen: HeadSnapshot) -> tuple[Writes, T]:
            return decide(seen.values)

        return await self._committer.commit(keys, plan, shareable=True)

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return self._feed.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        opened = boot_seconds()
        name, number = await self._session_records.open(ttl)

        async def renew() -> None:
            within = min(CALL_SECONDS, ttl / RENEWALS_PER_TTL)
            self._renewals.renew(name, number, within=within)

        async def end() -> None:
            self._sessions.discard(session)
            await self._session_records.end(name, number)

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
        """Disconnect; open sessions expire after their ttl, and watches raise an error."""
        for session in list(self._sessions):
            await session.abandon()
        self._renewals.close()
        await self._renewal_thread.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._feed.close()
        await self._shard.close()

    def _publish(self, number: int, items: list[Item]) -> None:
        if not self._feed.committed(number, items):
            self._changed.set()
        if trims_after(number):
            self._trim_due.set()

    async def _listen(self) -> None:
        """Receive notifications of other processes' commits and of ended sessions."""
        while True:
            try:
                async for batch in self._shard.notifications():
                    self._note_notification(batch)
            except StoreError as error:
                log.debug("Could not receive notifications from Oxia", extra={"error": error})
            await asyncio.sleep(RETRY_SECONDS)

    def _note_notification(self, batch: pb.NotificationBatch) -> None:
        if not batch.notifications:  # the stream has begun: earlier notifications may be lost
            self._changed.set()
            self._session_ended.set()
        for key, noted in batch.notifications.items():
            if key.startswith(self._keyspace.logs):
                self._changed.set()
                if noted.type == pb.KEY_CREATED:
                    self._committer.note_applied(self._keyspace.log_number(key))
            elif key.startswith(self._keyspace.sessions) and noted.type == pb.KEY_DELETED:
                self._session_ended.set()

    async def _sweep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._session_ended.wait()
            except TimeoutError:
                pass
            self._session_ended.clear()
            try:
                await self._session_records.sweep()
            except StoreError as error:
                log.warning(
                    "Could not delete the keys of ended metadata sessions", extra={"error": error}
                )
                await asyncio.sleep(RETRY_SECONDS)
                self._session_ended.set()

    async def _trim(self) -> None:
        while True:
            await self._trim_due.wait()
            self._trim_due.clear()
            try:
                await self._trimmer.trim()
            except StoreError as error:
                log.warning("Could not trim old metadata commits", extra={"error": error})
