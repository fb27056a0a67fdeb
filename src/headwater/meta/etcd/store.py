"""The store: reads, the compare loop, watches and sessions over one cluster."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

from headwater.clock import boot_seconds
from headwater.errors import ConfigurationError, StorageFull, StoreUnavailable, UnknownOutcome
from headwater.meta.etcd.address import Address
from headwater.meta.etcd.compactor import Compactor
from headwater.meta.etcd.leases import grant, lease_of, revoke, session_name
from headwater.meta.etcd.members import CALL_SECONDS, Members
from headwater.meta.etcd.methods import RANGE, STATUS, TXN
from headwater.meta.etcd.recent import Recent
from headwater.meta.etcd.renewals import Renewals
from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.etcd.transactions import (
    VALUE_BYTES,
    Keys,
    read_operations,
    unchanged,
    values_read,
    write_operations,
)
from headwater.meta.etcd.turns import Turns
from headwater.meta.etcd.watches import Watch
from headwater.meta.limits import check_keys, check_writes
from headwater.meta.renewal_thread import RenewalThread
from headwater.meta.sessions import RENEWALS_PER_TTL, RenewedSession
from headwater.meta.store import (
    Change,
    Committed,
    Decide,
    Entry,
    Limits,
    Scan,
    Session,
    T,
    Values,
    Writes,
)

OLDEST = (3, 5, 8)
"""Older ones may report a watch's progress before its changes."""
INLINE_BYTES = 64 * 2**20
"""Of records; its quota is 2 GiB by default, of which superseded revisions take a part."""
PAGE = 1_000
LOSSES = 3
"""After so many a transaction asks for a turn."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A transaction's values, and the revision at which all of them were read."""

    values: Values
    revision: int


def limits_of(address: Address) -> Limits:
    """What a transaction of this cluster may hold, one operation about its turn apart."""
    return Limits(
        operations=address.max_txn_ops - 1, value_bytes=VALUE_BYTES, inline_bytes=INLINE_BYTES
    )


class EtcdStore:
    """A ``MetadataStore`` on an etcd cluster; open it with ``EtcdStore.open``.

    Any number of stores, in any number of processes, may share a prefix; stores of different
    prefixes see nothing of each other but each other's revisions.
    """

    def __init__(self, address: Address, random: Random, members: Members | None = None) -> None:
        self._members = members or Members(address)
        self._keys = Keys(address.prefix)
        self._turns = Turns(address.prefix)
        self._limits = limits_of(address)
        self._random = random
        self._recent = Recent()
        self._losers = asyncio.Lock()
        self._sessions: set[RenewedSession] = set()
        self._renewals = Renewals(address)
        self._renewal_thread = RenewalThread()
        self._compacting = asyncio.create_task(Compactor(self._members, address.prefix).run())

    @classmethod
    async def open(cls, address: Address) -> "EtcdStore":
        """Connect to the cluster.

        Raises ``ConfigurationError`` where it is too old, ``StoreUnavailable`` where no member
        answers or lets this user in.
        """
        store = cls(address, Random())  # noqa: S311  pauses, no secrets
        try:
            await store._check()
        except BaseException:
            await store.close()
            raise
        return store

    async def _check(self) -> None:
        said = (await self._members.read(STATUS, pb.StatusRequest())).version
        version = tuple(int(part) for part in said.split("-")[0].split("."))
        if version < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise ConfigurationError(f"etcd is {said}: Headwater needs {oldest} or later")
        await self.scan("", "\0")
        # What stands beside the data is a matter of permissions too.
        await self._members.read(TXN, pb.TxnRequest(success=[self._turns.look(0)]))

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
        if limit == 0:  # to etcd that is no limit
            first = after
        if limit is not None and reverse:
            return await self._scan_last(first, after, limit)
        scan = await self._scan(first, after, limit, revision=0)
        if reverse:
            scan.entries.reverse()
        return scan

    async def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        first, after, revision = self._keys.path(start), self._keys.path(end), 0
        while True:
            answer = await self._range(first, after, size, revision)
            revision = revision or answer.header.revision
            yield Scan(list(map(self._keys.entry, answer.kvs)), revision)
            if not answer.more:
                return
            first = answer.kvs[-1].key + b"\0"

    async def _scan(self, first: bytes, after: bytes, limit: int | None, *, revision: int) -> Scan:
        """Pages of the range, all at one revision."""
        entries: list[Entry] = []
        while True:
            left = PAGE if limit is None else min(PAGE, limit - len(entries))
            answer = await self._range(first, after, left, revision)
            entries.extend(map(self._keys.entry, answer.kvs))
            revision = revision or answer.header.revision
            if not answer.more or len(entries) == limit:
                return Scan(entries, revision)
            first = answer.kvs[-1].key + b"\0"

    async def _range(
        self, first: bytes, after: bytes, limit: int, revision: int
    ) -> pb.RangeResponse:
        request = pb.RangeRequest(key=first, range_end=after, limit=limit, revision=revision)
        return await self._members.read(RANGE, request)

    async def _scan_last(self, first: bytes, after: bytes, limit: int) -> Scan:
        # To give a range's last entries etcd reads all of it; of keys alone that is cheap.
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

    async def transact(self, domain: int, keys: Sequence[str], decide: Decide[T]) -> Committed[T]:
        """See ``MetadataStore``; where comparisons are lost, it runs until one is won."""
        check_keys(self._limits, keys)
        wanted = list(dict.fromkeys(keys))
        await self._turns.let_pass(domain)
        guessed = await self._guess(domain, wanted, decide)
        if isinstance(guessed, Committed):
            return guessed
        writes, result = decide(guessed.values)
        tried = await self._try(domain, guessed, writes)
        if isinstance(tried, int):
            return Committed(tried, result)
        # Of one process only one at a time tries again, so that few compete however many wait.
        waited = self._losers.locked()
        async with self._losers:
            if waited:
                await self._turns.let_pass(domain)
                tried = await self._read(wanted)
            return await self._try_again(domain, tried, decide)

    async def _try_again(self, domain: int, tried: "_Seen", decide: Decide[T]) -> Committed[T]:
        """Try until one attempt wins; from the third loss on each asks for a turn."""
        loop = asyncio.get_running_loop()
        losses, took, marked = 1, 0.0, False
        while True:
            began = loop.time()
            writes, result = decide(tried.values)
            # A full etcd takes deletes alone, and no mark beside them.
            asked = took if losses >= LOSSES and writes.puts else None
            outcome = await self._try(domain, tried, writes, asked=asked, marked=marked)
            if isinstance(outcome, int):
                return Committed(outcome, result)
            tried, losses, took = outcome, losses + 1, loop.time() - began
            marked = marked or asked is not None

    async def _guess(
        self, domain: int, wanted: Sequence[str], decide: Decide[T]
    ) -> "Committed[T] | _Seen":
        """Try with what was seen last; where that comes to nothing, what is there."""
        values = self._recent.values(wanted)
        if values is None:
            return await self._read(wanted)
        try:
            writes, result = decide(values)
        except Exception:  # noqa: BLE001  the verdict has to be one on what is there
            return await self._read(wanted)
        if not writes:
            return await self._read(wanted)
        tried = await self._try(domain, _Seen(values, 0), writes)
        return Committed(tried, result) if isinstance(tried, int) else tried

    async def _read(self, wanted: Sequence[str]) -> "_Seen":
        request = pb.TxnRequest(success=read_operations(self._keys, wanted))
        answer = await self._members.read(TXN, request)
        return self._seen(wanted, answer)

    def _seen(self, wanted: Sequence[str], answer: pb.TxnResponse) -> "_Seen":
        values = values_read(self._keys, wanted, answer)
        self._recent.saw(values)
        return _Seen(values, answer.header.revision)

    async def _try(
        self,
        domain: int,
        seen: "_Seen",
        writes: Writes,
        *,
        asked: float | None = None,
        marked: bool = False,
    ) -> "int | _Seen":
        """The revision at which this transaction stands; what is there where it lost.

        One that asks for a turn if it loses says in ``asked`` how long an attempt takes;
        ``marked`` is one that has asked before.
        """
        if not writes:
            return seen.revision
        check_writes(self._limits, writes)
        leases = {key: lease_of(session) for key, session in writes.ephemeral.items()}
        wanted = list(seen.values)
        turns = self._turns
        won = turns.thank(domain) if marked else turns.look(domain)
        lost = turns.look(domain) if asked is None else turns.ask(domain, asked)
        request = pb.TxnRequest(
            compare=unchanged(self._keys, seen.values),
            success=[*write_operations(self._keys, writes, leases), won],
            failure=[*read_operations(self._keys, wanted), lost],
        )
        try:
            answer = await self._members.write(TXN, request)
        except StorageFull as full:
            return await self._found_full(seen, writes, full)
        # Nothing is found where the mark was put or taken away: either is this transaction's own.
        mark = answer.responses[-1].response_range.kvs
        turns.met(domain, mark, asyncio.get_running_loop().time())
        if answer.succeeded:
            self._recent.wrote(seen.values, writes, answer.header.revision)
            return answer.header.revision
        return self._seen(wanted, answer)

    async def _found_full(self, seen: "_Seen", writes: Writes, full: StorageFull) -> int:
        """The revision of a transaction that found etcd full, where it landed all the same.

        etcd looks at its quota before it proposes a transaction and again when it applies it; the
        second time it applies it and still says that there is no space. It does not land later,
        so its keys tell. Raises ``full`` where one is absent or as it was, ``UnknownOutcome``
        where others may have written over them since.
        """
        keys = list(writes.puts)
        request = pb.TxnRequest(success=read_operations(self._keys, keys))
        try:
            there = values_read(self._keys, keys, await self._members.read(TXN, request))
        except StoreUnavailable as error:
            raise UnknownOutcome(str(full)) from error
        before = {key: entry.revision if entry else 0 for key, entry in seen.values.items()}
        after = {key: entry.revision if entry else 0 for key, entry in there.items()}
        if any(revision in (0, before.get(key)) for key, revision in after.items()):
            raise full
        ours = all(entry and entry.value == writes.puts[key] for key, entry in there.items())
        # A key that was not read may have had the same value before.
        read = any(key in before for key in keys)
        if ours and read and len(set(after.values())) == 1:
            return next(iter(after.values()))
        raise UnknownOutcome(str(full)) from full

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[Change]]:
        return Watch(self._members, self._keys, prefix, after, self._random).changes()

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
        """Let go of the cluster; sessions left open run out, watches end with an error."""
        for session in list(self._sessions):
            await session.abandon()
        self._renewals.close()
        await self._renewal_thread.stop()
        self._compacting.cancel()
        await asyncio.gather(self._compacting, return_exceptions=True)
        await self._members.close()
