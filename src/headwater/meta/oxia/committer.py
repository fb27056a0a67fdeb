"""The one-key protocol: how several keys change at once where only one can be compared.

A commit has two steps:

1. *Propose*: the head is compared and set. It carries the commit's number and its writes, each
   with the version of the key that it replaces. Who sets it has committed.
2. *Apply*: one batch puts every write, each on the condition that its key still has that
   version, and the commit's changes into the log. Oxia shows a batch as a whole.

Whoever finds that the head's commit is not in the log, and stays so for a moment, applies it
before anything else. So when the head is at n, everything up to n - 1 is applied, and while the
head stays as it was read, no key changes: what is read between two looks at the same head was
there at one moment.

A committer that wakes up between the steps, however late, changes nothing: every key that its
commit wrote has another version since. That is why a deleted key is not removed but marked: its
version goes on. Marks are removed by a commit as well, long after (``trimmer``); an apply of a
head that was read or proposed more than ``APPLY_SECONDS`` ago, by a clock that counts a suspended
machine, is not sent: the head is looked at again.
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
"""A commit travels whole, three times: bounds that keep it a matter of milliseconds."""
BATCH_BYTES = 16 * 2**20
"""What applies a commit has no more bytes. Oxia takes no batch that is larger than a segment of its
log (64 MiB), and a commit that stands and cannot be applied stops every later one for ever."""
OTHERS_APPLY_SECONDS = 0.05
"""How long another committer is left to apply its own commit,"""
LOOK_AGAIN_SECONDS = 0.002
"""and how often it is looked at meanwhile: who comes late loses to who committed last."""
APPLY_SECONDS = 10.0
PATIENCE_SECONDS = 10.0
RETRY_SECONDS = 0.1
BACKOFF = Backoff(first=0.002, longest=0.01, jitter=(0, 1))

Publish = Callable[[int, list[Item]], None]


class _Overtaken(Exception):
    """The head is no longer the one that was seen."""


class OxiaCommitter:
    """Commits one after another; ``publish`` is told of each."""

    def __init__(
        self,
        shard: OxiaShard,
        layout: OxiaKeyspace,
        reader: OxiaReader,
        random: Random,
        publish: Publish,
        *,
        now: Callable[[], float] = boot_seconds,
    ) -> None:
        self._shard = shard
        self._layout = layout
        self._reader = reader
        self._random = random
        self._publish = publish
        self._now = now
        self._recall = OxiaCommitCache()
        self._turn = asyncio.Lock()
        self._waiting: list[PendingTransaction] = []
        """In the order of their turns, those whose outcome is there already among them."""

    async def commit(
        self, keys: Sequence[str], plan: Plan[T], *, joins: bool = False
    ) -> CommitResult[T]:
        """Run ``plan`` until what it writes is committed and applied.

        One that ``joins`` reads nothing but its keys, and may be committed together with others.
        """
        check_keys(LIMITS, keys)
        call = PendingTransaction(list(dict.fromkeys(keys)), plan, joins)
        self._waiting.append(call)
        try:
            async with self._turn:
                if call.outcome is None:
                    await self._take_turn(call)
        finally:
            self._waiting.remove(call)
        return call.result()

    async def _take_turn(self, first: PendingTransaction) -> None:
        """Commit what a call writes, and with it what waits behind."""
        calls, asked = self._calls(first)
        if (seen := self._recall.recall(asked)) and await self._guess(seen, calls):
            return
        pauses = BACKOFF.pauses(self._random)
        while True:
            seen = await self._look(asked)
            with suppress(_Overtaken):
                head, taken = await self._decide(seen, calls)
                if head is None:
                    _settle(taken, seen.head.number)
                else:
                    await self._carry_out(seen, head, taken)
                return
            await asyncio.sleep(next(pauses))
            calls, asked = self._calls(first)

    def _calls(self, first: PendingTransaction) -> tuple[list[PendingTransaction], list[str]]:
        calls = batchable(first, self._waiting, LIMITS)
        return calls, list(dict.fromkeys(key for call in calls for key in call.keys))

    async def _guess(self, seen: HeadSnapshot, calls: Sequence[PendingTransaction]) -> bool:
        """Commit by what is remembered; False where a look has to say."""
        try:
            head, taken = await self._decide(seen, calls)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - it may come of what is no longer so
            return False
        if head is None:
            return False
        with suppress(_Overtaken):
            await self._carry_out(seen, head, taken)
            return True
        return False

    def heard(self, number: int) -> None:
        """Somebody applied a commit."""
        self._recall.heard(number)

    async def _decide(
        self, seen: HeadSnapshot, calls: Sequence[PendingTransaction]
    ) -> tuple[Head | None, CommitBatch]:
        """The commit that follows from what was seen; None where there is nothing to write."""
        writes, taken = decide_batch(calls, seen, LIMITS)
        head = writes if isinstance(writes, Head) else await self._prepare(seen, writes)
        return head, taken

    async def _carry_out(self, seen: HeadSnapshot, head: Head, taken: CommitBatch) -> None:
        """Both steps; raises ``_Overtaken`` where another commit was faster.

        Those that were taken along are left to wait where nothing was committed.
        """
        applied = None
        try:
            began = self._now()
            version = await self._propose(head, seen.version)
            if version is not None:
                self._recall.proposed(head)
                applied = await self._finish(head, began)
        except StoreUnavailable:
            raise
        except BaseException as error:
            for call, _ in taken[1:]:
                call.outcome = UnknownOutcome(f"commit {head.number} was broken off: {error!r}")
            raise
        if version is None:
            raise _Overtaken
        _settle(taken, head.number)
        if applied is not None:
            self._recall.keep(seen, head, version, applied)
        self._publish(head.number, head.changes)

    async def _look(self, keys: Sequence[str]) -> HeadSnapshot:
        """Read keys under one head, after its commit is applied."""
        gets = [
            pb.GetRequest(key=self._layout.head, include_value=True),
            self._reader.last_log(),
            *(pb.GetRequest(key=self._layout.path(key), include_value=True) for key in keys),
            pb.GetRequest(key=self._layout.head),
        ]
        loop = asyncio.get_running_loop()
        waiting_for, since = 0, 0.0
        while True:
            asked = self._now()
            first, log, *found, last = await self._shard.read(gets)
            head, version = self._layout.head_of(first)
            if self._layout.log_number(log.key) < head.number:
                if waiting_for != head.number:
                    waiting_for, since = head.number, loop.time()
                if loop.time() < since + OTHERS_APPLY_SECONDS:
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
                elif self._now() < asked + APPLY_SECONDS:
                    await self._apply(head)
            elif last.status == first.status and last.version == first.version:
                records = {
                    key: self._layout.record(key, record)
                    for key, record in zip(keys, found, strict=True)
                }
                return HeadSnapshot(head, version, records)

    async def _prepare(self, seen: HeadSnapshot, writes: Writes) -> Head | None:
        """The next commit; None where there is nothing to write.

        What is read here is of the same head: ``_Overtaken`` where it is not, also because a
        server answered that does not know yet that it leads no more.
        """
        if not writes:
            return None
        check_writes(LIMITS, writes)
        await self._check_sessions(set(writes.ephemeral.values()))
        records = dict(seen.records)
        unread = [key for key in (*writes.puts, *writes.deletes) if key not in records]
        read = await self._read_under(seen, unread) if unread else []
        for key, found in zip(unread, read, strict=True):
            records[key] = self._layout.record(key, found)
        deleted = {key for key in writes.deletes if records[key].entry is not None}
        for start, end in writes.range_deletes:
            if start >= end:
                continue
            first, after = self._layout.path(start), self._layout.path(end)
            async for found in self._shard.scan(first, after):
                key = self._layout.name(found.key)
                records[key] = self._layout.record(key, found)
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
        if size > BATCH_BYTES:
            raise TransactionTooLarge(
                f"a transaction of {len(head.writes)} keys takes {size} bytes to apply, "
                f"more than {BATCH_BYTES}"
            )
        return head

    async def _read_under(self, seen: HeadSnapshot, keys: Sequence[str]) -> list[pb.GetResponse]:
        """Keys as they are under the head that was seen; raises ``_Overtaken``."""
        gets = [pb.GetRequest(key=self._layout.path(key), include_value=True) for key in keys]
        *found, head = await self._shard.read([*gets, pb.GetRequest(key=self._layout.head)])
        absent = head.status == pb.KEY_NOT_FOUND
        if (ABSENT if absent else head.version.version_id) != seen.version:
            raise _Overtaken
        return found

    async def _check_sessions(self, sessions: set[str]) -> None:
        if not sessions:
            return
        ordered = sorted(sessions)
        gets = [pb.GetRequest(key=self._layout.session(name)) for name in ordered]
        for name, found in zip(ordered, await self._shard.read(gets), strict=True):
            if found.status == pb.KEY_NOT_FOUND:
                raise SessionLost(f"session {name} has ended: no key can be bound to it")

    async def _propose(self, head: Head, version: int) -> int | None:
        """The first step, and the head's new version; None where another commit was faster."""
        put = pb.PutRequest(
            key=self._layout.head,
            value=encode(head),
            expected_version_id=version,
            partition_key=self._layout.partition,
        )
        answer = (await self._shard.write(pb.WriteRequest(puts=[put]))).puts[0]
        return answer.version.version_id if answer.status == pb.OK else None

    async def _finish(self, head: Head, began: float) -> pb.WriteResponse | None:
        """The second step, until it is certain that it was done; None where not by this call.

        ``began`` is when the first step did, on a clock that counts a suspended machine.
        """
        loop = asyncio.get_running_loop()
        proposed = loop.time()
        while True:
            try:
                if self._now() < began + APPLY_SECONDS:
                    return await self._apply(head)
                if await self._reader.revision() >= head.number:
                    return None
                await self._look([])
            except StoreError as error:
                if not isinstance(error, StoreUnavailable | UnknownOutcome):
                    raise
                if loop.time() >= proposed + PATIENCE_SECONDS:
                    raise UnknownOutcome(
                        f"commit {head.number} stands, but is not applied yet: {error}"
                    ) from error
                await asyncio.sleep(RETRY_SECONDS)

    async def _apply(self, head: Head) -> pb.WriteResponse:
        return await self._shard.write(self.batch(head))

    def batch(self, head: Head) -> pb.WriteRequest:
        """What applies a commit; sent again, or too late, it changes nothing."""
        partition = self._layout.partition
        puts = [
            pb.PutRequest(
                key=self._layout.path(write.key),
                value=encode_stored(head.number, write.value),
                expected_version_id=write.version,
                partition_key=partition,
            )
            for write in head.writes
        ]
        puts.append(
            pb.PutRequest(
                key=self._layout.log(head.number),
                value=encode(CommitLogEntry(changes=head.changes)),
                expected_version_id=ABSENT,
                partition_key=partition,
            )
        )
        deletes = [
            pb.DeleteRequest(key=self._layout.path(key), expected_version_id=version)
            for key, version in head.purged
        ]
        return pb.WriteRequest(puts=puts, deletes=deletes)


def _settle(taken: CommitBatch, revision: int) -> None:
    for call, result in taken:
        call.outcome = CommitResult(revision, result)
