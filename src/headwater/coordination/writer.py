"""The one writer of a coordinator: everything that is pending goes into one transaction.

Writes of all shards are made durable in the order in which they were submitted, one transaction
at a time; while one is under way the next ones gather, so that load makes transactions larger
and not more. Each transaction compares the leases of the shards involved.

How one can fail, and what follows:

- A lease is not this broker's any more: that shard is left, the others are tried again.
- The answer was lost: the same changes are written again together with a new lease, which
  voids the attempt that may still be under way. Values are absolute, so that writing them twice
  does no harm; nobody else can have written in between.
- The store is away for longer than ``patience``: the shards involved are left. What their
  entries hold beyond the store is forgotten with them; whoever asks next takes the lease anew,
  which voids what may still be under way, and reads the entries again.
- The store finds a transaction too large: its writes are written one by one. One that is too
  large by itself fails for good, and its shard is left, because its entry in memory is ahead
  of the store; the other shards do not notice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.coordination.shards import Shard, Write
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
from headwater.telemetry.metrics import Counter, Histogram

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 1 << 20
MOST_CHANGES: Final = 5_000
PAUSES: Final = (0.01, 0.02, 0.05, 0.1, 0.2)


class _Torn(Value):
    """What stands under a write's ``torn_mark``."""


TORN: Final = encode(_Torn())

Leave = Callable[[Shard[Any], KafkaError], None]


class _LeaseLost(Exception):
    """Raised inside a transaction whose shards are not all this broker's; names those."""

    def __init__(self, shards: list[Shard[Any]]) -> None:
        super().__init__()
        self.shards = shards


@dataclass(slots=True)
class _Batch:
    """Writes of one transaction, folded into one change per key."""

    writes: list[Write] = field(default_factory=list)
    changes: dict[str, bytes | None] = field(default_factory=dict)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    shards: dict[Shard[Any], set[bytes]] = field(default_factory=dict)
    """With the leases that may stand in the store, if an answer was lost."""
    size: int = 0

    def add(self, write: Write) -> None:
        self.writes.append(write)
        self.shards.setdefault(write.shard, {write.shard.lease})
        for start, end in write.ranges:
            for key in [key for key in self.changes if start <= key < end]:
                del self.changes[key]
            self.ranges.append((start, end))
        self.changes.update(write.changes)
        self.size += write.size

    def operations_with(self, write: Write) -> int:
        """At most, with one more write: a lease may have to be written for each shard.

        A store may have to delete a range around each key that is written in it.
        """
        changes = len(self.changes) + len(write.changes)
        ranges = len(self.ranges) + len(write.ranges)
        return (2 * changes if ranges else changes) + ranges + len(self.shards) + 1


@dataclass(frozen=True, slots=True)
class WriteMetrics:
    """What a writer counts: its transactions, and how long each took."""

    transactions: Counter
    seconds: Histogram


class Writer:
    """Makes what is submitted durable; ``leave`` is told of shards that failed.

    ``noun`` is what an entry of the shards is called in messages. ``renew`` gives a lease that
    no other was the same as.
    """

    def __init__(
        self,
        meta: MetadataStore,
        noun: str,
        metrics: WriteMetrics,
        *,
        leave: Leave,
        renew: Callable[[], bytes],
        patience: float = 5.0,
    ) -> None:
        self._meta = meta
        self._noun = noun
        self._metrics = metrics
        self._leave = leave
        self._renew = renew
        self._patience = patience
        self._queue: deque[Write] = deque()
        self._working: asyncio.Task[None] | None = None
        operations = meta.limits.operations
        self._most_operations = MOST_CHANGES if operations is None else operations
        self._value_bytes = meta.limits.value_bytes

    def submit(self, write: Write) -> None:
        """Write after all that was submitted before.

        More than a transaction holds is written in several, in the order of its changes; its
        ``torn_mark`` is in the store from before the first to the last. Where a value is more
        than the store takes, nothing of the write is written.
        """
        write.size = weight(write)
        most = self._most_operations - len(write.ranges) - 1
        if write.ranges:
            most //= 2
        limit = self._value_bytes
        if limit is not None and write.size > limit and (large := _above(limit, write)):
            write.changes, write.ranges = large, ()
        elif len(write.changes) > most or (limit is not None and write.size > MOST_BYTES):
            self._split(write, most)
        self._queue.append(write)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    def _split(self, write: Write, most: int) -> None:
        """Queue all but the last part of a write, which it becomes itself."""
        parts = _parts(write.changes, most)
        mark = write.torn_mark
        if len(parts) > 1 and mark is not None:
            self._queue.append(Write(write.shard, {mark: TORN}))
            parts = _parts({**write.changes, mark: None}, most)
        for part in parts[:-1]:
            first = Write(write.shard, part, write.ranges)
            first.size = weight(first)
            self._queue.append(first)
            write.ranges = ()
        write.changes = parts[-1]
        write.size = weight(write)

    async def settled(self, shard: Shard[Any]) -> None:
        """Wait until all that was submitted for a shard is durable.

        Raises the ``KafkaError`` with which the shard is left before.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.submit(Write(shard, {}, waiting=[(done, None)]))
        await done

    def discard(self, shard: Shard[Any], error: KafkaError) -> None:
        """Forget what a shard has queued; what is under way takes its course."""
        for write in self._queue:
            if write.shard is shard:
                write.fail(error)
        self._queue = deque(write for write in self._queue if write.shard is not shard)

    async def close(self) -> None:
        """Wait a bounded time for what is queued and under way."""
        if self._working is not None and not self._working.done():
            await asyncio.wait([self._working], timeout=self._patience)
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)

    async def _work(self) -> None:
        while self._queue:
            batch = self._take()
            try:
                await self._write(batch)
            except Exception as reason:  # nobody may wait for what will not come
                logger.exception("a write of %ss failed oddly", self._noun)
                self._give_up(batch, reason)
            except BaseException as reason:
                self._give_up(batch, reason)
                raise

    def _take(self) -> _Batch:
        batch = _Batch()
        queue = self._queue
        while queue:
            write = queue[0]
            if batch.writes and (
                batch.operations_with(write) > self._most_operations
                or batch.size + write.size > MOST_BYTES
            ):
                break
            batch.add(queue.popleft())
        return batch

    async def _write(self, batch: _Batch, *, uncertain: bool = False) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        attempt = 0
        while batch.writes:
            try:
                await self._attempt(batch, renewing=uncertain)
            except _LeaseLost as lost:
                batch = self._without(batch, lost.shards)
                continue
            except SessionLost:
                batch = self._without(batch, list(batch.shards))
                continue
            except (UnknownOutcome, StoreUnavailable, TimeoutError) as error:
                uncertain = uncertain or not isinstance(error, StoreUnavailable)
                if loop.time() - started >= self._patience:
                    self._give_up(batch, error)
                    return
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
                gone = [shard for shard in batch.shards if shard.left]
                if gone:
                    batch = self._without(batch, gone)
                continue
            except TransactionTooLarge as error:
                await self._write_apart(batch, error, uncertain=uncertain)
                return
            except StoreError as error:
                self._give_up(batch, error)
                return
            self._metrics.transactions.inc()
            self._metrics.seconds.observe(loop.time() - started)
            for write in batch.writes:
                write.succeed()
            return

    async def _write_apart(
        self, batch: _Batch, error: TransactionTooLarge, *, uncertain: bool
    ) -> None:
        """Write what was too large together one by one; what is so by itself fails alone."""
        if len(batch.writes) == 1:
            self._refuse(batch.writes[0], error)
            return
        for write in batch.writes:
            if write.shard.left:
                write.fail(self._loaded_again())
                continue
            alone = _Batch()
            alone.add(write)
            alone.shards[write.shard] = batch.shards[write.shard]
            await self._write(alone, uncertain=uncertain)

    async def _attempt(self, batch: _Batch, *, renewing: bool) -> None:
        leases = {shard.lease_key: shard for shard in batch.shards}
        accepted = {key: frozenset(batch.shards[shard]) for key, shard in leases.items()}
        writes = Writes(
            puts={key: value for key, value in batch.changes.items() if value is not None},
            deletes=[key for key, value in batch.changes.items() if value is None],
            range_deletes=list(batch.ranges),
        )
        if renewing:
            for key, shard in leases.items():
                value = self._renew()
                batch.shards[shard].add(value)
                shard.leases.add(value)
                writes.put(key, value, session=shard.session.id)

        def decide(values: Values) -> tuple[Writes, None]:
            lost = []
            for key, shard in leases.items():
                there = values[key]
                if there is None or there.value not in accepted[key]:
                    lost.append(shard)
            if lost:
                raise _LeaseLost(lost)
            return writes, None

        async with asyncio.timeout(self._patience):
            committed = await self._meta.transact(0, list(leases), decide)
        for shard in batch.shards:
            shard.written = committed.revision
        if renewing:
            for key, shard in leases.items():
                shard.lease, shard.revision = writes.puts[key], committed.revision
                shard.leases = {shard.lease}

    def _without(self, batch: _Batch, shards: list[Shard[Any]]) -> _Batch:
        """Leave those shards; the rest of the batch as a batch of its own."""
        rest = _Batch()
        error = NotCoordinator(f"another broker coordinates this {self._noun}, or soon will")
        for write in batch.writes:
            if write.shard in shards:
                write.fail(error)
            else:
                rest.add(write)
        for shard in rest.shards:
            rest.shards[shard] = batch.shards[shard]
        for shard in shards:
            self._leave(shard, error)
        return rest

    def _refuse(self, write: Write, reason: TransactionTooLarge) -> None:
        noun = self._noun
        logger.warning("a %s is too large to be written: %s", noun, reason)
        write.fail(KafkaError(f"the metadata store does not take so large a {noun}: {reason}"))
        self._leave(write.shard, self._loaded_again())

    def _loaded_again(self) -> CoordinatorNotAvailable:
        return CoordinatorNotAvailable(f"the {self._noun}s of this shard are loaded again")

    def _give_up(self, batch: _Batch, reason: BaseException) -> None:
        logger.warning(
            "%ss cannot be written: %s", self._noun, str(reason) or type(reason).__name__
        )
        error = CoordinatorNotAvailable(f"the metadata store does not take writes: {reason}")
        for write in batch.writes:
            write.fail(error)
        for shard in batch.shards:
            self._leave(shard, error)


def _above(limit: int, write: Write) -> dict[str, bytes | None]:
    """The changes whose values are too large."""
    return {key: value for key, value in write.changes.items() if len(value or b"") > limit}


def _parts(changes: dict[str, bytes | None], most: int) -> list[dict[str, bytes | None]]:
    """The changes in their order, by what one transaction holds; the last may be empty."""
    parts: list[dict[str, bytes | None]] = [{}]
    size = 0
    for key, value in changes.items():
        weighs = len(key) + len(value or b"")
        if parts[-1] and (len(parts[-1]) >= most or size + weighs > MOST_BYTES):
            parts.append({})
            size = 0
        parts[-1][key] = value
        size += weighs
    return parts


def weight(write: Write) -> int:
    """About how many bytes a write has."""
    return sum(len(key) + len(value or b"") for key, value in write.changes.items())
