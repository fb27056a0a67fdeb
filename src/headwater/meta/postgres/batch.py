"""Which transactions are committed together, as values: nothing here waits or fails.

Transactions that wait at the same time share one commit in the database, each with a revision
of its own. They follow one another: what an earlier one writes, a later one may neither read
nor write; such a one is left for the next batch.
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
"""A value above this stands in the change table only by its key."""

MAX_BATCH_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class QueuedTransaction:
    """A transaction that someone awaits."""

    keys: Sequence[str]
    decide: Decide[Any]
    future: asyncio.Future[CommitResult[Any]]


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A transaction that has decided to write."""

    waiting: QueuedTransaction
    writes: Writes
    result: Any


@dataclass(slots=True)
class PostgresBatch:
    """The transactions of one commit, and those that have to wait for the next."""

    steps: list[DecidedTransaction] = field(default_factory=list)
    deferred: list[QueuedTransaction] = field(default_factory=list)
    bytes: int = 0
    _written: set[str] = field(default_factory=set)
    _ranges: list[tuple[str, str]] = field(default_factory=list)

    def reads_what_is_written(self, keys: Iterable[str]) -> bool:
        return not self._written.isdisjoint(keys) or any(
            start <= key < end for start, end in self._ranges for key in keys
        )

    def add(self, step: DecidedTransaction) -> None:
        """Take a step in, or defer it where it does not go with those before it."""
        writes = step.writes
        size = sum(len(key) + len(value) for key, value in writes.puts.items())
        if self.steps and (self.bytes + size > MAX_BATCH_BYTES or self._overlaps(writes)):
            self.deferred.append(step.waiting)
            return
        self.steps.append(step)
        self.bytes += size
        self._written.update(writes.puts, writes.deletes)
        self._ranges.extend(writes.range_deletes)

    def _overlaps(self, writes: Writes) -> bool:
        if self.reads_what_is_written([*writes.puts, *writes.deletes]):
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
        """What ``commit_batch`` takes, with the revisions of every key that a step has read."""
        keys = dict.fromkeys(key for step in self.steps for key in step.waiting.keys)
        read = list(filter(is_storable, keys))
        puts = [
            (number, key, value, step.writes.ephemeral.get(key))
            for number, step in enumerate(self.steps, 1)
            for key, value in step.writes.puts.items()
        ]
        deletes = [
            (number, key)
            for number, step in enumerate(self.steps, 1)
            for key in dict.fromkeys(step.writes.deletes)
            if key not in step.writes.puts
        ]
        ranges = [
            (number, text_bound(start), text_bound(end))
            for number, step in enumerate(self.steps, 1)
            for start, end in step.writes.range_deletes
        ]
        return [
            read,
            [_revision(seen[key]) for key in read],
            len(self.steps),
            self.bytes,
            *_columns(puts, 4),
            *_columns(deletes, 2),
            *_columns(ranges, 3),
            MAX_COPIED_BYTES,
        ]

    def items(self, gone_steps: Sequence[int], gone_keys: Sequence[str]) -> list[list[Item]]:
        """What each step has changed, given the keys that were there to be deleted."""
        items: list[list[Item]] = [list(step.writes.puts.items()) for step in self.steps]
        for number, key in zip(gone_steps, gone_keys, strict=True):
            items[number - 1].append((key, None))
        return items


def decide_batch(
    waiting: Iterable[QueuedTransaction], seen: Mapping[str, Entry | None], revision: int
) -> PostgresBatch:
    """Run every transaction over the values in ``seen``, all of them read at ``revision``.

    One that refuses or writes nothing is answered here: it needs no commit.
    """
    batch = PostgresBatch()
    for each in waiting:
        if each.future.done():
            continue
        if batch.reads_what_is_written(each.keys):
            batch.deferred.append(each)
            continue
        try:
            writes, result = each.decide({key: seen[key] for key in each.keys})
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
            each.future.set_exception(error)
            continue
        if writes:
            batch.add(DecidedTransaction(each, writes, result))
        else:
            each.future.set_result(CommitResult(revision, result))
    return batch


def _revision(entry: Entry | None) -> int:
    return 0 if entry is None else entry.revision


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[place] for row in rows] for place in range(count)]
