"""Group commit: commits waiting transactions of one process combined.

The commits of all brokers are serialised on Oxia, and each takes several round trips. A
transaction that starts its commit therefore includes the transactions that wait behind it.

Invariant: no transaction of a batch writes a key that another one of the batch reads or writes.
Their order within the commit therefore makes no difference.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.meta.limits import check_writes
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import Head
from headwater.meta.store import CommitResult, Limits, T, Writes

Plan = Callable[[HeadSnapshot], tuple[Writes | Head, T]]
"""Computes the writes from a snapshot; a ``Head`` is a commit that only purges tombstones."""

MAX_BATCH_VALUE_BYTES = 2**20
"""Upper bound on the bytes of values in a batch: a large commit delays those of all brokers."""


@dataclass(slots=True, eq=False)
class PendingTransaction:
    """A transaction that waits for its own commit, or for a commit that includes it."""

    keys: Sequence[str]
    plan: Plan[Any]
    shareable: bool
    """Whether it may share a commit with others; its plan then reads only its ``keys``."""
    outcome: CommitResult[Any] | BaseException | None = None

    def result(self) -> CommitResult[Any]:
        """The result; raises the exception if the transaction failed."""
        assert self.outcome is not None
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


CommitBatch = list[tuple[PendingTransaction, Any]]
"""The transactions of one commit, each with its result."""


def batchable(
    first: PendingTransaction, waiting: Iterable[PendingTransaction], limits: Limits
) -> list[PendingTransaction]:
    """The first transaction, and the waiting ones that may share its commit."""
    found, keys = [first], set(first.keys)
    if not first.shareable:
        return found
    for each in waiting:
        if each is first or each.outcome is not None:
            continue
        keys.update(each.keys)
        if not each.shareable or len(keys) > (limits.operations or len(keys)):
            break
        found.append(each)
    return found


def decide_batch(
    transactions: Sequence[PendingTransaction], seen: HeadSnapshot, limits: Limits
) -> tuple[Writes | Head, CommitBatch]:
    """Combine the writes of the transactions, up to one that must wait for the next commit.

    Raises what the first one raises. If another one raises, the batch ends before it; it raises
    again when it is the first of a batch.
    """
    first, *others = transactions
    writes, result = first.plan(seen.select(first.keys))
    batch: CommitBatch = [(first, result)]
    if isinstance(writes, Head) or writes.range_deletes or not others:
        return writes, batch
    combined = Writes(dict(writes.puts), dict(writes.ephemeral), list(writes.deletes))
    written, read = {*writes.puts, *writes.deletes}, set(first.keys)
    size = sum(map(len, writes.puts.values()))
    for each in others:
        if not written.isdisjoint(each.keys):
            break
        try:
            more, result = each.plan(seen.select(each.keys))
            assert isinstance(more, Writes)
            check_writes(limits, more)
        except Exception:  # noqa: BLE001 - it raises again as the first of a batch
            break
        touched = {*more.puts, *more.deletes}
        size += sum(map(len, more.puts.values()))
        count = sum(map(len, (combined.puts, combined.deletes, more.puts, more.deletes)))
        full = size > MAX_BATCH_VALUE_BYTES or count > (limits.operations or count)
        disjoint = (written | read).isdisjoint(touched)
        if full or not disjoint or more.ephemeral or more.range_deletes:
            break
        combined.puts.update(more.puts)
        combined.deletes.extend(more.deletes)
        written |= touched
        read.update(each.keys)
        batch.append((each, result))
    return combined, batch
