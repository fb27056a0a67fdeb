"""The store: calls handed to their parts, and the tasks that look after the rest."""

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

    Any number of stores, in any number of processes, may share a prefix. A domain is no unit of
    its own here: the commits of a prefix follow one another.
    """

    def __init__(
        self, shard: OxiaShard, following: asyncio.Task[None], prefix: str, revision: int
    ) -> None:
        random = Random()  # noqa: S311  pauses, no secrets
        self._shard = shard
        self._layout = OxiaKeyspace(prefix)
        self._reader = OxiaReader(shard, self._layout)
        self._committer = OxiaCommitter(shard, self._layout, self._reader, random, self._publish)
        self._leases = OxiaSessions(shard, self._layout, self._committer)
        self._trimmer = OxiaTrimmer(shard, self._layout, self._reader, self._committer)
        self._feed = ChangeFeed(revision, read=self._reader.changes, last=self._reader.revision)
        self._changed = asyncio.Event()
        self._orphaned = asyncio.Event()
        self._long = asyncio.Event()
        self._sessions: set[RenewedSession] = set()
        self._renewals = OxiaRenewals(shard, self._layout)
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
        """Find the shard; raises ``StoreUnavailable`` where no server answers."""
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

        return await self._committer.commit(keys, plan, joins=True)

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return self._feed.watch(prefix, after)

    async def session(self, ttl: float) -> Session:
        opened = boot_seconds()
        name, number = await self._leases.open(ttl)

        async def renew() -> None:
            within = min(CALL_SECONDS, ttl / RENEWALS_PER_TTL)
            self._renewals.renew(name, number, within=within)

        async def end() -> None:
            self._sessions.discard(session)
            await self._leases.end(name, number)

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
        """Let go of the cluster; sessions left open run out, watches end with an error."""
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
            self._long.set()

    async def _listen(self) -> None:
        """Hear of the commits of others, and of sessions that end."""
        while True:
            try:
                async for batch in self._shard.notifications():
                    self._heard(batch)
            except StoreError as error:
                log.debug("no notifications from Oxia: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    def _heard(self, batch: pb.NotificationBatch) -> None:
        if not batch.notifications:  # it has begun: what came before was not heard
            self._changed.set()
            self._orphaned.set()
        for key, noted in batch.notifications.items():
            if key.startswith(self._layout.logs):
                self._changed.set()
                if noted.type == pb.KEY_CREATED:
                    self._committer.heard(self._layout.log_number(key))
            elif key.startswith(self._layout.sessions) and noted.type == pb.KEY_DELETED:
                self._orphaned.set()

    async def _sweep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._orphaned.wait()
            except TimeoutError:
                pass
            self._orphaned.clear()
            try:
                await self._leases.sweep()
            except StoreError as error:
                log.warning("the keys of ended sessions are not swept: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._orphaned.set()

    async def _trim(self) -> None:
        while True:
            await self._long.wait()
            self._long.clear()
            try:
                await self._trimmer.take_turn()
            except StoreError as error:
                log.warning("old metadata commits are not forgotten: %s", error)
