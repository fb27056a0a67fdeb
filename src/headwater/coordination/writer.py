"""The writer of shards: one transaction at a time, with all pending writes.

Writes of all shards become durable in the order in which they were submitted. While a transaction
is running the next writes queue, so that load makes transactions larger and not more frequent.
Each transaction compares the leases of the shards that it writes.

A transaction can fail in these ways:

- This broker no longer holds a lease: that shard resigns, and the others are tried again.
- The answer was lost: the same changes are written again together with a new lease, which voids
  the first attempt if it is still running. Values are absolute, so that writing them twice is
  harmless; no other broker can have written in between.
- The store does not answer for ``timeout`` seconds: the shards of the transaction resign, and
  entries that are ahead of the store are dropped with them. The next request takes the lease
  anew, which voids attempts that are still running, and loads the entries again.
- The transaction is too large for the store: its writes are written one by one. A single
  write that is too large fails permanently. Its shard resigns, because its entry in memory is
  ahead of the store; other shards are not affected.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headwater.coordination.shards import Shard
from headwater.coordination.writes import (
    MAX_TRANSACTION_BYTES,
    ShardWrite,
    WriteBatch,
    oversized_changes,
    size_of,
    split_changes,
)
from headwater.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    SessionLost,
    StoreError,
    StoreUnavailable,
    TransactionTooLarge,
    UnknownOutcome,
)
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.values import Value, encode
from headwater.retry import Backoff
from headwater.telemetry.metrics import Counter, Histogram

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_TRANSACTION_OPERATIONS: Final = 5_000
"""For stores without a limit."""
BACKOFF: Final = Backoff(first=0.01, longest=0.2)


class _Torn(Value):
    """The value of a write's ``torn_mark``."""


TORN: Final = encode(_Torn())


class _LeaseLost(Exception):
    """Raised inside a transaction: this broker does not hold the leases of these shards."""

    def __init__(self, shards: list[Shard[Any]]) -> None:
        super().__init__()
        self.shards = shards


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """The metrics of a writer: its transactions, and the seconds that each took."""

    transactions: Counter
    seconds: Histogram


class ShardWriter:
    """Makes submitted writes durable; calls ``resign`` for each shard whose write failed.

    ``noun`` names an entry of the shards in messages. ``next_lease`` returns a lease that differs
    from all others.
    """

    def __init__(
        self,
        meta: MetadataStore,
        noun: str,
        metrics: WriteMetrics,
        *,
        resign: Callable[[Shard[Any], KafkaError], None],
        next_lease: Callable[[], bytes],
        timeout: float = 5.0,
    ) -> None:
        self._meta = meta
        self._noun = noun
        self._metrics = metrics
        self._resign = resign
        self._next_lease = next_lease
        self._timeout = timeout
        self._queue: deque[ShardWrite] = deque()
        self._drain_task: asyncio.Task[None] | None = None
        operations = meta.limits.operations
        self._max_operations = MAX_TRANSACTION_OPERATIONS if operations is None else operations
        self._max_value_bytes = meta.limits.value_bytes

    def submit(self, write: ShardWrite) -> None:
        """Queue a write behind all that were submitted before.

        A write that does not fit into one transaction is split, in the order of its changes. Its
        ``torn_mark`` is in the store from before the first part to the last. If the store does
        not accept one of the values, nothing of the write is written.
        """
        write.size = size_of(write.changes)
        max_changes = self._max_operations - len(write.ranges) - 1
        if write.ranges:
            max_changes //= 2
        limit = self._max_value_bytes
        if (
            limit is not None
            and write.size > limit
            and (large := oversized_changes(write.changes, limit))
        ):
            write.changes, write.ranges = large, ()
        elif len(write.changes) > max_changes or (
            limit is not None and write.size > MAX_TRANSACTION_BYTES
        ):
            self._split(write, max_changes)
        self._queue.append(write)
        if self._drain_task is None or self._drain_task.done():
            self._drain_task = asyncio.create_task(self._drain())

    async def commit(self, write: ShardWrite, reply: T) -> T:
        """Submit a write and return ``reply`` once it is durable; raises the error if it failed."""
        self.submit(write)
        return await write.reply_when_done(reply)

    def _split(self, write: ShardWrite, max_changes: int) -> None:
        """Queue all parts of a write but the last; ``write`` itself becomes the last."""
        parts = split_changes(write.changes, max_changes)
        mark = write.torn_mark
        if len(parts) > 1 and mark is not None:
            self._queue.append(ShardWrite(write.shard, {mark: TORN}))
            parts = split_changes({**write.changes, mark: None}, max_changes)
        for part in parts[:-1]:
            first = ShardWrite(write.shard, part, write.ranges)
            first.size = size_of(first.changes)
            self._queue.append(first)
            write.ranges = ()
        write.changes = parts[-1]
        write.size = size_of(write.changes)

    async def flush(self, shard: Shard[Any]) -> None:
        """Wait until all writes submitted for a shard are durable.

        Raises the ``KafkaError`` with which the shard resigns before that.
        """
        await self.commit(ShardWrite(shard, {}), None)

    def discard(self, shard: Shard[Any], error: KafkaError) -> None:
        """Fail the queued writes of a shard; a transaction that is running goes on."""
        for write in self._queue:
            if write.shard is shard:
                write.fail(error)
        self._queue = deque(write for write in self._queue if write.shard is not shard)

    async def close(self) -> None:
        """Wait at most ``timeout`` seconds for queued writes and the running transaction."""
        if self._drain_task is not None and not self._drain_task.done():
            await asyncio.wait([self._drain_task], timeout=self._timeout)
            self._drain_task.cancel()
            await asyncio.gather(self._drain_task, return_exceptions=True)

    async def _drain(self) -> None:
        while self._queue:
            batch = self._next_batch()
            try:
                await self._commit(batch)
            except Exception as reason:  # a waiting request needs an answer
                logger.exception("A write failed unexpectedly", extra={"kind": self._noun})
                self._fail_batch(batch, reason)
            except BaseException as reason:
                self._fail_batch(batch, reason)
                raise

    def _next_batch(self) -> WriteBatch:
        batch = WriteBatch()
        queue = self._queue
        while queue:
            write = queue[0]
            if batch.writes and (
                batch.operations_with(write) > self._max_operations
                or batch.size + write.size > MAX_TRANSACTION_BYTES
            ):
                break
            batch.add(queue.popleft())
        return batch

    async def _commit(self, batch: WriteBatch, *, uncertain: bool = False) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        pauses = BACKOFF.pauses()
        while batch.writes:
            try:
                await self._attempt(batch, renewing=uncertain)
            except _LeaseLost as lost:
                batch = self._drop_shards(batch, lost.shards)
                continue
            except SessionLost:
                batch = self._drop_shards(batch, list(batch.shards))
                continue
            except (UnknownOutcome, StoreUnavailable, TimeoutError) as error:
                uncertain = uncertain or not isinstance(error, StoreUnavailable)
                if loop.time() - started >= self._timeout:
                    self._fail_batch(batch, error)
                    return
                await asyncio.sleep(next(pauses))
                gone = [shard for shard in batch.shards if shard.resigned]
                if gone:
                    batch = self._drop_shards(batch, gone)
                continue
            except TransactionTooLarge as error:
                await self._commit_one_by_one(batch, error, uncertain=uncertain)
                return
            except StoreError as error:
                self._fail_batch(batch, error)
                return
            self._metrics.transactions.inc()
            self._metrics.seconds.observe(loop.time() - started)
            for write in batch.writes:
                write.succeed()
            return

    async def _commit_one_by_one(
        self, batch: WriteBatch, error: TransactionTooLarge, *, uncertain: bool
    ) -> None:
        """Write the parts of a batch that was too large; a part that is too large fails alone."""
        if len(batch.writes) == 1:
            self._fail_oversized(batch.writes[0], error)
            return
        for write in batch.writes:
            if write.shard.resigned:
                write.fail(self._loaded_again())
                continue
            alone = WriteBatch()
            alone.add(write)
            alone.shards[write.shard] = batch.shards[write.shard]
            await self._commit(alone, uncertain=uncertain)

    async def _attempt(self, batch: WriteBatch, *, renewing: bool) -> None:
        leases = {shard.lease_key: shard for shard in batch.shards}
        accepted = {key: frozenset(batch.shards[shard]) for key, shard in leases.items()}
        writes = Writes(
            puts={key: value for key, value in batch.changes.items() if value is not None},
            deletes=[key for key, value in batch.changes.items() if value is None],
            range_deletes=list(batch.ranges),
        )
        if renewing:
            for key, shard in leases.items():
                value = self._next_lease()
                batch.shards[shard].add(value)
                shard.leases.add(value)
                writes.put(key, value, session=shard.session.id)

        def decide(values: Values) -> tuple[Writes, None]:
            lost = []
            for key, shard in leases.items():
                current = values[key]
                if current is None or current.value not in accepted[key]:
                    lost.append(shard)
            if lost:
                raise _LeaseLost(lost)
            return writes, None

        async with asyncio.timeout(self._timeout):
            committed = await self._meta.transact(0, list(leases), decide)
        for shard in batch.shards:
            shard.write_revision = committed.revision
        if renewing:
            for key, shard in leases.items():
                shard.lease, shard.lease_revision = writes.puts[key], committed.revision
                shard.leases = {shard.lease}

    def _drop_shards(self, batch: WriteBatch, shards: list[Shard[Any]]) -> WriteBatch:
        """Make these shards resign; returns the writes of the other shards as a new batch."""
        rest = WriteBatch()
        error = NotCoordinator(f"another broker coordinates this {self._noun} or will take it over")
        for write in batch.writes:
            if write.shard in shards:
                write.fail(error)
            else:
                rest.add(write)
        for shard in rest.shards:
            rest.shards[shard] = batch.shards[shard]
        for shard in shards:
            self._resign(shard, error)
        return rest

    def _fail_oversized(self, write: ShardWrite, reason: TransactionTooLarge) -> None:
        noun = self._noun
        logger.warning("An entry is too large to write", extra={"kind": noun, "error": reason})
        write.fail(KafkaError(f"the {noun} is too large for the metadata store: {reason}"))
        self._resign(write.shard, self._loaded_again())

    def _loaded_again(self) -> CoordinatorNotAvailable:
        return CoordinatorNotAvailable(f"the {self._noun}s of this shard are being loaded again")

    def _fail_batch(self, batch: WriteBatch, reason: BaseException) -> None:
        logger.warning("Could not write entries", extra={"kind": self._noun, "error": reason})
        error = CoordinatorNotAvailable(f"the metadata store failed to write: {reason}")
        for write in batch.writes:
            write.fail(error)
        for shard in batch.shards:
            self._resign(shard, error)
