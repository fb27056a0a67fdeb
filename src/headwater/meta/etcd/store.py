"""The store: reads, transactions, watches and sessions on one etcd cluster."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from headwater.clock import boot_seconds
from headwater.errors import ConfigurationError, StorageFull, StoreUnavailable, UnknownOutcome
from headwater.meta.etcd.address import EtcdAddress
from headwater.meta.etcd.compactor import EtcdCompactor
from headwater.meta.etcd.leases import grant, lease_of, revoke, session_name
from headwater.meta.etcd.members import CALL_SECONDS, EtcdMembers
from headwater.meta.etcd.methods import RANGE, STATUS, TXN
from headwater.meta.etcd.recent_keys import RecentKeys
from headwater.meta.etcd.renewals import EtcdRenewals
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.etcd.transactions import (
    VALUE_BYTES,
    EtcdKeyspace,
    read_operations,
    unchanged,
    values_read,
    write_operations,
)
from headwater.meta.etcd.turn_marks import TurnMarks
from headwater.meta.etcd.watches import EtcdWatch
from headwater.meta.limits import check_keys, check_writes
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
    Values,
    Writes,
)

OLDEST_VERSION = (3, 5, 8)
"""Earlier versions may report a watch's progress before they have sent its changes."""
INLINE_BYTES = 64 * 2**20
"""Bytes of inline records. etcd's space quota is 2 GiB by default and includes old revisions."""
PAGE_KEYS = 1_000
KEYS_AT_ONCE = 100_000
"""Keys that ``scan_pages`` reads at once, without values; a key takes about 60 bytes."""
LOSSES_BEFORE_MARK = 3
"""A transaction that has lost this many times puts a mark (see ``turn_marks``)."""


@dataclass(frozen=True, slots=True)
class _ReadValues:
    """A transaction's values, and the revision at which all of them were read."""

    values: Values
    revision: int


def limits_of(address: EtcdAddress) -> Limits:
    """The limits of a transaction; one operation is reserved for the turn mark."""
    return Limits(
        operations=address.max_txn_ops - 1, value_bytes=VALUE_BYTES, inline_bytes=INLINE_BYTES
    )


class EtcdStore:
    """A ``MetadataStore`` on an etcd cluster; open it with ``EtcdStore.open``.

    Any number of stores, in any number of processes, may share a prefix. Stores with different
    prefixes share nothing but the revision numbers of the cluster.
    """

    def __init__(
        self, address: EtcdAddress, random: Random, members: EtcdMembers | None = None
    ) -> None:
        self._members = members or EtcdMembers(address)
        self._keys = EtcdKeyspace(address.prefix)
        self._turn_marks = TurnMarks(address.prefix)
        self._limits = limits_of(address)
        self._random = random
        self._recent = RecentKeys()
        self._retry_lock = asyncio.Lock()
        self._sessions: set[RenewedSession] = set()
        self._renewals = EtcdRenewals(address)
        self._renewal_thread = RenewalThread()
        self._compacting = asyncio.create_task(EtcdCompactor(self._members, address.prefix).run())

    @classmethod
    async def open(cls, address: EtcdAddress) -> "EtcdStore":
        """Connect to the cluster.

        Raises ``ConfigurationError`` if its version is too old, and ``StoreUnavailable`` if no
        member answers or the user has no access.
        """
        store = cls(address, Random())  # noqa: S311  for pauses, not for secrets
        try:
            await store._check()
        except BaseException:
            await store.close()
            raise
        return store

    async def _check(self) -> None:
        reported = (await self._members.read(STATUS, pb.StatusRequest())).version
        version = tuple(int(part) for part in reported.split("-")[0].split("."))
        if version < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise ConfigurationError(
                f"etcd has version {reported}; Headwater needs {oldest} or later"
            )
        await self.scan("", "\0")
        # The user also needs permission for the keys outside of the prefix.
        await self._members.read(TXN, pb.TxnRequest(success=[self._turn_marks.read_mark(0)]))

    @property
    def limits(self) -> Limits:
        return self._limits

    async def get(self, key: str) -> Entry | None:
        answer = await self._members.read(RANGE, pb.RangeRequest(key=self._keys.path(key)))
        return self._keys.entry(answer.kvs[0]) if answer.kvs else None

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        first, after = self._keys.path(start), self._keys.path(end)
        if limit == 0:  # for etcd, 0 means no limit
            first = after
        if limit is not None and reverse:
            return await self._scan_last(first, after, limit)
        scan = await self._scan(first, after, limit, revision=0)
        if reverse:
            scan.entries.reverse()
        return scan

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        # etcd counts all keys of the requested range for each answer, even if the limit is small.
        # To avoid this, the scan reads many keys without values first, and then requests one exact
        # range for each page.
        first, after, revision = self._keys.path(start), self._keys.path(end), 0
        more = True
        while more:
            keys = await self._range(first, after, KEYS_AT_ONCE, revision, keys_only=True)
            revision, more = revision or keys.header.revision, keys.more
            if not keys.kvs:
                yield Scan([], revision)
                return
            first = keys.kvs[-1].key + b"\0"
            bounds = [*(found.key for found in keys.kvs[::size]), first]
            for low, high in pairwise(bounds):
                answer = await self._range(low, high, 0, revision)
                yield Scan(list(map(self._keys.entry, answer.kvs)), revision)

    async def _scan(self, first: bytes, after: bytes, limit: int | None, *, revision: int) -> Scan:
        """Read a range page by page, all pages at one revision."""
        entries: list[Entry] = []
        while True:
            left = PAGE_KEYS if limit is None else min(PAGE_KEYS, limit - len(entries))
            answer = await self._range(first, after, left, revision)
            entries.extend(map(self._keys.entry, answer.kvs))
            revision = revision or answer.header.revision
            if not answer.more or len(entries) == limit:
                return Scan(entries, revision)
            first = answer.kvs[-1].key + b"\0"

    async def _range(
        self,
        first: bytes,
        after: bytes,
        limit: int,
        revision: int,
        *,
        keys_only: bool = False,
    ) -> pb.RangeResponse:
        request = pb.RangeRequest(
            key=first, range_end=after, limit=limit, revision=revision, keys_only=keys_only
        )
        return await self._members.read(RANGE, request)

    async def _scan_last(self, first: bytes, after: bytes, limit: int) -> Scan:
        # etcd reads the whole range to find its last entries, which is cheap for keys alone.
        request = pb.RangeRequest(
            key=first,
            range_end=after,
            limit=limit,
            sort_order=pb.RangeRequest.DESCEND,
            keys_only=True,
        )
        found = await self._members.read(RANGE, request)
        if not found.kvs:
            return Scan([], found.header.revision)
        scan = await self._scan(found.kvs[-1].key, after, None, revision=found.header.revision)
        scan.entries.reverse()
        return scan

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        """See ``MetadataStore``; repeats the attempt if a key has changed since it was read."""
        check_keys(self._limits, keys)
        wanted = list(dict.fromkeys(keys))
        await self._turn_marks.wait(domain)
        first = await self._try_recent(domain, wanted, decide)
        if isinstance(first, CommitResult):
            return first
        writes, result = decide(first.values)
        tried = await self._try(domain, first, writes)
        if isinstance(tried, int):
            return CommitResult(tried, result)
        # One transaction per process retries at a time, so that few of them compete.
        waited = self._retry_lock.locked()
        async with self._retry_lock:
            if waited:
                await self._turn_marks.wait(domain)
                tried = await self._read(wanted)
            return await self._retry(domain, tried, decide)

    async def _retry(self, domain: int, tried: "_ReadValues", decide: Decide[T]) -> CommitResult[T]:
        """Try until an attempt commits; from the third loss on, every attempt puts a mark."""
        loop = asyncio.get_running_loop()
        losses, took, marked = 1, 0.0, False
        while True:
            began = loop.time()
            writes, result = decide(tried.values)
            # An etcd without free space accepts only deletes, and no mark beside them.
            mark_seconds = took if losses >= LOSSES_BEFORE_MARK and writes.puts else None
            outcome = await self._try(
                domain, tried, writes, mark_seconds=mark_seconds, marked=marked
            )
            if isinstance(outcome, int):
                return CommitResult(outcome, result)
            tried, losses, took = outcome, losses + 1, loop.time() - began
            marked = marked or mark_seconds is not None

    async def _try_recent(
        self, domain: int, wanted: Sequence[str], decide: Decide[T]
    ) -> "CommitResult[T] | _ReadValues":
        """Try with the recent values of the keys; returns the current ones if that fails."""
        values = self._recent.values(wanted)
        if values is None:
            return await self._read(wanted)
        try:
            writes, result = decide(values)
        except Exception:  # noqa: BLE001  only an error over current values counts
            return await self._read(wanted)
        if not writes:
            return await self._read(wanted)
        tried = await self._try(domain, _ReadValues(values, 0), writes)
        return CommitResult(tried, result) if isinstance(tried, int) else tried

    async def _read(self, wanted: Sequence[str]) -> "_ReadValues":
        request = pb.TxnRequest(success=read_operations(self._keys, wanted))
        answer = await self._members.read(TXN, request)
        return self._to_read_values(wanted, answer)

    def _to_read_values(self, wanted: Sequence[str], answer: pb.TxnResponse) -> "_ReadValues":
        values = values_read(self._keys, wanted, answer)
        self._recent.note_read(values)
        return _ReadValues(values, answer.header.revision)

    async def _try(
        self,
        domain: int,
        read: "_ReadValues",
        writes: Writes,
        *,
        mark_seconds: float | None = None,
        marked: bool = False,
    ) -> "int | _ReadValues":
        """The revision of the committed transaction, or the current values if it lost.

        If it loses, a transaction with ``mark_seconds`` puts a mark with that duration of an
        attempt. ``marked`` says that it has put a mark before, which is deleted if it commits.
        """
        if not writes:
            return read.revision
        check_writes(self._limits, writes)
        leases = {key: lease_of(session) for key, session in writes.ephemeral.items()}
        wanted = list(read.values)
        marks = self._turn_marks
        won = marks.delete_mark(domain) if marked else marks.read_mark(domain)
        lost = (
            marks.read_mark(domain)
            if mark_seconds is None
            else marks.put_mark(domain, mark_seconds)
        )
        request = pb.TxnRequest(
            compare=unchanged(self._keys, read.values),
            success=[*write_operations(self._keys, writes, leases), won],
            failure=[*read_operations(self._keys, wanted), lost],
        )
        try:
            answer = await self._members.write(TXN, request)
        except StorageFull as full:
            return await self._found_full(read, writes, full)
        # If this transaction put or deleted the mark, the answer has no mark: it is its own.
        mark = answer.responses[-1].response_range.kvs
        marks.observe(domain, mark, asyncio.get_running_loop().time())
        if answer.succeeded:
            self._recent.note_committed(read.values, writes, answer.header.revision)
            return answer.header.revision
        return self._to_read_values(wanted, answer)

    async def _found_full(self, read: "_ReadValues", writes: Writes, full: StorageFull) -> int:
        """The revision of a transaction that was committed although etcd answered "no space".

        etcd checks its space quota before it proposes a transaction and when it applies it. The
        second check answers with an error although the transaction is applied. It is never
        applied later, so its keys show the outcome. Raises ``full`` if one of them is absent or
        unchanged, and ``UnknownOutcome`` if other transactions may have replaced them since.
        """
        keys = list(writes.puts)
        request = pb.TxnRequest(success=read_operations(self._keys, keys))
        try:
            there = values_read(self._keys, keys, await self._members.read(TXN, request))
        except StoreUnavailable as error:
            raise UnknownOutcome(str(full)) from error
        before = {key: entry.revision if entry else 0 for key, entry in read.values.items()}
        after = {key: entry.revision if entry else 0 for key, entry in there.items()}
        if any(revision in (0, before.get(key)) for key, revision in after.items()):
            raise full
        ours = all(entry and entry.value == writes.puts[key] for key, entry in there.items())
        # A key that was not read may have had the same value before this transaction.
        any_read = any(key in before for key in keys)
        if ours and any_read and len(set(after.values())) == 1:
            return next(iter(after.values()))
        raise UnknownOutcome(str(full)) from full

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        return EtcdWatch(self._members, self._keys, prefix, after, self._random).changes()

    async def session(self, ttl: float) -> Session:
        opened = boot_seconds()
        lease = await grant(self._members, ttl)

        async def renew() -> None:
            within = min(CALL_SECONDS, ttl / RENEWALS_PER_TTL)
            self._renewals.keep_alive(lease, within=within)

        async def end() -> None:
            self._sessions.discard(session)
            await revoke(self._members, lease)

        session = RenewedSession(
            session_name(lease),
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
        self._compacting.cancel()
        await asyncio.gather(self._compacting, return_exceptions=True)
        await self._members.close()
