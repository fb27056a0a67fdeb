"""Group commit: decides which waiting transactions are committed together.

The transactions of a batch share one commit in the database, and each gets its own revision. If a
transaction reads or writes a key that an earlier one of the batch writes, it is deferred to the
next batch. The code here is synchronous and does no I/O.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.meta.feed import Item
from headwater.meta.postgres.key_text import is_storable, text_bound
from headwater.meta.store import CommitResult, Decide, Entry, Writes

MAX_COPIED_BYTES = 32 * 1024
"""The change table holds a copy of values up to this size, and only the key of larger ones."""

MAX_BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class QueuedTransaction:
    """A transaction in the queue, and the future of its result."""

    keys: Sequence[str]
    decide: Decide[Any]
    future: asyncio.Future[CommitResult[Any]]


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A transaction whose function has run and returned writes."""

    queued: QueuedTransaction
    writes: Writes
    result: Any


@dataclass(slots=True)
class PostgresBatch:
    """The transactions of one commit, and the transactions deferred to the next commit."""

    transactions: list[DecidedTransaction] = field(default_factory=list)
    deferred: list[QueuedTransaction] = field(default_factory=list)
    bytes: int = 0
    _written: set[str] = field(default_factory=set)
    _ranges: list[tuple[str, str]] = field(default_factory=list)

    def reads_written_keys(self, keys: Iterable[str]) -> bool:
        return not self._written.isdisjoint(keys) or any(
            start <= key < end for start, end in self._ranges for key in keys
        )

    def add(self, decided: DecidedTransaction) -> None:
        """Add a transaction, or defer it if it conflicts with the batch or the batch is full."""
        writes = decided.writes
        size = sum(len(key) + len(value) for key, value in writes.puts.items())
        if self.transactions and (self.bytes + size > MAX_BATCH_BYTES or self._overlaps(writes)):
            self.deferred.append(decided.queued)
            return
        self.transactions.append(decided)
        self.bytes += size
        self._written.update(writes.puts, writes.deletes)
        self._ranges.extend(writes.range_deletes)

    def _overlaps(self, writes: Writes) -> bool:
        if self.reads_written_keys([*writes.puts, *writes.deletes]):
            return True
        if not writes.range_deletes:
            return False
        written = sorted(self._written)
        return any(
            bisect_left(written, start) < bisect_left(written, end)
            or any(start < other_end and other < end for other, other_end in self._ranges)
            for start, end in writes.range_deletes
        )

    def arguments(self, seen: Mapping[str, Entry | None]) -> list[Any]:
        """The arguments of the SQL function ``commit_batch``; ``seen`` are the entries read."""
        keys = dict.fromkeys(key for decided in self.transactions for key in decided.queued.keys)
        read = list(filter(is_storable, keys))
        puts = [
            (number, key, value, decided.writes.ephemeral.get(key))
            for number, decided in enumerate(self.transactions, 1)
            for key, value in decided.writes.puts.items()
        ]
        deletes = [
            (number, key)
            for number, decided in enumerate(self.transactions, 1)
            for key in dict.fromkeys(decided.writes.deletes)
            if key not in decided.writes.puts
        ]
        ranges = [
            (number, text_bound(start), text_bound(end))
            for number, decided in enumerate(self.transactions, 1)
            for start, end in decided.writes.range_deletes
        ]
        return [
            read,
            [_revision(seen[key]) for key in read],
            len(self.transactions),
            self.bytes,
            *_columns(puts, 4),
            *_columns(deletes, 2),
            *_columns(ranges, 3),
            MAX_COPIED_BYTES,
        ]

    def items(self, gone_steps: Sequence[int], gone_keys: Sequence[str]) -> list[list[Item]]:
        """The changes of each transaction; the arguments are the keys that deletes removed."""
        items: list[list[Item]] = [
            list(decided.writes.puts.items()) for decided in self.transactions
        ]
        for number, key in zip(gone_steps, gone_keys, strict=True):
            items[number - 1].append((key, None))
        return items


def decide_batch(
    transactions: Iterable[QueuedTransaction], seen: Mapping[str, Entry | None], revision: int
) -> PostgresBatch:
    """Run every transaction over the values in ``seen``, which were read at ``revision``.

    A transaction that raises or writes nothing is answered here, because it needs no commit.
    """
    batch = PostgresBatch()
    for queued in transactions:
        if queued.future.done():
            continue
        if batch.reads_written_keys(queued.keys):
            batch.deferred.append(queued)
            continue
        try:
            writes, result = queued.decide({key: seen[key] for key in queued.keys})
        except Exception as error:  # noqa: BLE001 - the caller gets it
            queued.future.set_exception(error)
            continue
        if writes:
            batch.add(DecidedTransaction(queued, writes, result))
        else:
            queued.future.set_result(CommitResult(revision, result))
    return batch


def _revision(entry: Entry | None) -> int:
    return 0 if entry is None else entry.revision


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(count)]
