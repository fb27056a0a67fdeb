"""The commit protocol: changes several keys atomically, although Oxia can compare only one.

A commit has two steps:

1. *Propose*: compare and set the head. The new head carries the number of the commit and its
   writes, each with the version of the key that it replaces. This step decides the commit.
2. *Apply*: one batch puts every write, on the condition that its key still has that version, and
   adds the changes to the commit log. The effects of a batch become visible together.

A process that finds that the head's commit is not in the log waits for a short time, and then
applies it before it does anything else. Therefore, if the head is commit n, all commits up to
n - 1 are applied, and no key changes while the head stays the same: if the head is the same before
and after some reads, the reads form a snapshot.

A process that applies its commit very late changes nothing, because every key that the commit
wrote has a newer version by then. For this reason a deleted key is replaced by a tombstone, so that
its version continues to grow. Tombstones are deleted by a commit too, long after (``trimmer``). A
head that was read or proposed more than ``APPLY_SECONDS`` ago is not applied but read again; the
clock for that does not stop while the machine is suspended.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from headwater.clock import boot_seconds
from headwater.errors import (
    SessionLost,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.meta.feed import Item
from headwater.meta.limits import check_keys, check_writes
from headwater.meta.oxia.commit_cache import OxiaCommitCache
from headwater.meta.oxia.group_commit import (
    CommitBatch,
    PendingTransaction,
    Plan,
    batchable,
    decide_batch,
)
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import (
    ABSENT,
    CommitLogEntry,
    Head,
    HeadWrite,
    OxiaKeyspace,
    encode_stored,
)
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from headwater.meta.store import CommitResult, Limits, T, Writes
from headwater.meta.values import encode
from headwater.retry import Backoff

LIMITS = Limits(operations=1_000, value_bytes=2**20, range_keys=1_000)
"""A commit is sent three times as a whole; these bounds keep that within milliseconds."""
MAX_BATCH_BYTES = 16 * 2**20
"""Upper bound on the batch that applies a commit. Oxia refuses a batch that is larger than a
segment of its log (64 MiB), and a commit that cannot be applied blocks all later ones for ever."""
OTHERS_APPLY_SECONDS = 0.05
"""Seconds that another process gets to apply its own commit."""
READ_AGAIN_SECONDS = 0.002
"""Interval of reads meanwhile; it is short so that this process can commit next."""
APPLY_SECONDS = 10.0
MAX_APPLY_SECONDS = 10.0
RETRY_SECONDS = 0.1
BACKOFF = Backoff(first=0.002, longest=0.01, jitter=(0, 1))

Publish = Callable[[int, list[Item]], None]


class _HeadChanged(Exception):
    """Raised if the head has changed since it was read."""


class OxiaCommitter:
    """Commits transactions one after another; calls ``publish`` with the changes of each."""

    def __init__(
        self,
        shard: OxiaShard,
        keyspace: OxiaKeyspace,
        reader: OxiaReader,
        random: Random,
        publish: Publish,
        *,
        now: Callable[[], float] = boot_seconds,
    ) -> None:
        self._shard = shard
        self._keyspace = keyspace
        self._reader = reader
        self._random = random
        self._publish = publish
        self._now = now
        self._cache = OxiaCommitCache()
        self._commit_lock = asyncio.Lock()
        self._waiting: list[PendingTransaction] = []
        """In the order of their arrival; includes transactions that are done already."""

    async def commit(
        self, keys: Sequence[str], plan: Plan[T], *, shareable: bool = False
    ) -> CommitResult[T]:
        """Run ``plan``, repeatedly if necessary, until its writes are committed and applied.

        A ``shareable`` plan reads only its ``keys`` and may be committed together with others.
        """
        check_keys(LIMITS, keys)
        transaction = PendingTransaction(list(dict.fromkeys(keys)), plan, shareable)
        self._waiting.append(transaction)
        try:
            async with self._commit_lock:
                if transaction.outcome is None:
                    await self._commit_batch(transaction)
        finally:
            self._waiting.remove(transaction)
        return transaction.result()

    async def _commit_batch(self, first: PendingTransaction) -> None:
        """Commit a transaction together with waiting transactions whose keys do not overlap."""
        transactions, keys = self._batchable(first)
        if (seen := self._cache.get(keys)) and await self._try_cached(seen, transactions):
            return
        pauses = BACKOFF.pauses(self._random)
        while True:
            seen = await self._read_snapshot(keys)
            with suppress(_HeadChanged):
                head, batch = await self._decide(seen, transactions)
                if head is None:
                    _set_results(batch, seen.head.number)
                else:
                    await self._propose_and_apply(seen, head, batch)
                return
            await asyncio.sleep(next(pauses))
            transactions, keys = self._batchable(first)

    def _batchable(self, first: PendingTransaction) -> tuple[list[PendingTransaction], list[str]]:
        transactions = batchable(first, self._waiting, LIMITS)
        return transactions, list(
            dict.fromkeys(key for transaction in transactions for key in transaction.keys)
        )

    async def _try_cached(
        self, seen: HeadSnapshot, transactions: Sequence[PendingTransaction]
    ) -> bool:
        """Try to commit from cached keys; False if the keys must be read."""
        try:
            head, batch = await self._decide(seen, transactions)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - the cached keys may be out of date
            return False
        if head is None:
            return False
        with suppress(_HeadChanged):
            await self._propose_and_apply(seen, head, batch)
            return True
        return False

    def note_applied(self, number: int) -> None:
        """A commit with this number was applied, by this process or another."""
        self._cache.note_applied(number)

    async def _decide(
        self, seen: HeadSnapshot, transactions: Sequence[PendingTransaction]
    ) -> tuple[Head | None, CommitBatch]:
        """The next commit, computed from a snapshot; None if there is nothing to write."""
        writes, batch = decide_batch(transactions, seen, LIMITS)
        head = writes if isinstance(writes, Head) else await self._prepare(seen, writes)
        return head, batch

    async def _propose_and_apply(self, seen: HeadSnapshot, head: Head, batch: CommitBatch) -> None:
        """Propose and apply a commit; raises ``_HeadChanged`` if another commit was faster.

        If nothing was committed, the other transactions of the batch continue to wait.
        """
        applied = None
        try:
            began = self._now()
            version = await self._propose(head, seen.version)
            if version is not None:
                self._cache.note_proposed(head)
                applied = await self._apply_until_done(head, began)
        except StoreUnavailable:
            raise
        except BaseException as error:
            for transaction, _ in batch[1:]:
                transaction.outcome = UnknownOutcome(
                    f"commit {head.number} was interrupted: {error!r}"
                )
            raise
        if version is None:
            raise _HeadChanged
        _set_results(batch, head.number)
        if applied is not None:
            self._cache.store(seen, head, version, applied)
        self._publish(head.number, head.changes)

    async def _read_snapshot(self, keys: Sequence[str]) -> HeadSnapshot:
        """Read a snapshot of the keys, after the head's commit is applied."""
        gets = [
            pb.GetRequest(key=self._keyspace.head, include_value=True),
            self._reader.last_log(),
            *(pb.GetRequest(key=self._keyspace.path(key), include_value=True) for key in keys),
            pb.GetRequest(key=self._keyspace.head),
        ]
        loop = asyncio.get_running_loop()
        waiting_for, since = 0, 0.0
        while True:
            started = self._now()
            first, log, *found, last = await self._shard.read(gets)
            head, version = self._keyspace.head_of(first)
            if self._keyspace.log_number(log.key) < head.number:
                if waiting_for != head.number:
                    waiting_for, since = head.number, loop.time()
                if loop.time() < since + OTHERS_APPLY_SECONDS:
                    await asyncio.sleep(READ_AGAIN_SECONDS)
                elif self._now() < started + APPLY_SECONDS:
                    await self._apply(head)
            elif last.status == first.status and last.version == first.version:
                records = {
                    key: self._keyspace.record(key, record)
                    for key, record in zip(keys, found, strict=True)
                }
                return HeadSnapshot(head, version, records)

    async def _prepare(self, seen: HeadSnapshot, writes: Writes) -> Head | None:
        """The next commit with these writes; None if there is nothing to write.

        Raises ``_HeadChanged`` if the head changes during the reads here. This also detects an
        answer of a deposed leader that does not know yet that it was deposed.
        """
        if not writes:
            return None
        check_writes(LIMITS, writes)
        await self._check_sessions(set(writes.ephemeral.values()))
        records = dict(seen.records)
        unread = [key for key in (*writes.puts, *writes.deletes) if key not in records]
        read = await self._read_under(seen, unread) if unread else []
        for key, found in zip(unread, read, strict=True):
            records[key] = self._keyspace.record(key, found)
        deleted = {key for key in writes.deletes if records[key].entry is not None}
        for start, end in writes.range_deletes:
            if start >= end:
                continue
            first, after = self._keyspace.path(start), self._keyspace.path(end)
            async for found in self._shard.scan(first, after):
                key = self._keyspace.name(found.key)
                records[key] = self._keyspace.record(key, found)
                if records[key].entry is not None:
                    deleted.add(key)
        if writes.range_deletes:
            await self._read_under(seen, [])
        gone = sorted(deleted - writes.puts.keys())
        if not gone and not writes.puts:
            return None
        owners = {
            key: session
            for key, session in seen.head.owners.items()
            if key not in writes.puts and key not in deleted
        }
        head = Head(
            number=seen.head.number + 1,
            writes=[
                *(HeadWrite(key, records[key].version, None) for key in gone),
                *(
                    HeadWrite(key, records[key].version, value)
                    for key, value in writes.puts.items()
                ),
            ],
            owners=owners | writes.ephemeral,
        )
        size = self.batch(head).ByteSize()
        if size > MAX_BATCH_BYTES:
            raise TransactionTooLarge(
                f"a transaction of {len(head.writes)} keys takes {size} bytes to apply; "
                f"at most {MAX_BATCH_BYTES} are possible"
            )
        return head

    async def _read_under(self, seen: HeadSnapshot, keys: Sequence[str]) -> list[pb.GetResponse]:
        """Read keys under the head of a snapshot; raises ``_HeadChanged``."""
        gets = [pb.GetRequest(key=self._keyspace.path(key), include_value=True) for key in keys]
        *found, head = await self._shard.read([*gets, pb.GetRequest(key=self._keyspace.head)])
        absent = head.status == pb.KEY_NOT_FOUND
        if (ABSENT if absent else head.version.version_id) != seen.version:
            raise _HeadChanged
        return found

    async def _check_sessions(self, sessions: set[str]) -> None:
        if not sessions:
            return
        ordered = sorted(sessions)
        gets = [pb.GetRequest(key=self._keyspace.session(name)) for name in ordered]
        for name, found in zip(ordered, await self._shard.read(gets), strict=True):
            if found.status == pb.KEY_NOT_FOUND:
                raise SessionLost(f"session {name} has ended: no key can be bound to it")

    async def _propose(self, head: Head, version: int) -> int | None:
        """The first step; returns the head's new version, None if another commit was faster."""
        put = pb.PutRequest(
            key=self._keyspace.head,
            value=encode(head),
            expected_version_id=version,
            partition_key=self._keyspace.partition,
        )
        answer = (await self._shard.write(pb.WriteRequest(puts=[put]))).puts[0]
        return answer.version.version_id if answer.status == pb.OK else None

    async def _apply_until_done(self, head: Head, began: float) -> pb.WriteResponse | None:
        """The second step, repeated until it is certainly done; None if another process did it.

        ``began`` is the start of the first step, on a clock that does not stop while the machine
        is suspended.
        """
        loop = asyncio.get_running_loop()
        proposed = loop.time()
        while True:
            try:
                if self._now() < began + APPLY_SECONDS:
                    return await self._apply(head)
                if await self._reader.revision() >= head.number:
                    return None
                await self._read_snapshot([])
            except StoreError as error:
                if not isinstance(error, StoreUnavailable | UnknownOutcome):
                    raise
                if loop.time() >= proposed + MAX_APPLY_SECONDS:
                    raise UnknownOutcome(
                        f"commit {head.number} is decided, but could not be applied: {error}"
                    ) from error
                await asyncio.sleep(RETRY_SECONDS)

    async def _apply(self, head: Head) -> pb.WriteResponse:
        return await self._shard.write(self.batch(head))

    def batch(self, head: Head) -> pb.WriteRequest:
        """The batch that applies a commit; if it is sent again or too late, it changes nothing."""
        partition = self._keyspace.partition
        puts = [
            pb.PutRequest(
                key=self._keyspace.path(write.key),
                value=encode_stored(head.number, write.value),
                expected_version_id=write.version,
                partition_key=partition,
            )
            for write in head.writes
        ]
        puts.append(
            pb.PutRequest(
                key=self._keyspace.log(head.number),
                value=encode(CommitLogEntry(changes=head.changes)),
                expected_version_id=ABSENT,
                partition_key=partition,
            )
        )
        deletes = [
            pb.DeleteRequest(key=self._keyspace.path(key), expected_version_id=version)
            for key, version in head.purged
        ]
        return pb.WriteRequest(puts=puts, deletes=deletes)


def _set_results(batch: CommitBatch, revision: int) -> None:
    for transaction, result in batch:
        transaction.outcome = CommitResult(revision, result)
