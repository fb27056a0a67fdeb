"""Transactions of one process that travel as one commit.

All commits of a cluster follow one another on Oxia, and those of several brokers compete for each
place. So whoever has its turn takes along what waits behind it.

Invariant: what the transactions of one commit saw is so before it and after it, and their order
makes no difference: none of them writes a key that another one asks for or writes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.meta.limits import check_writes
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import Head
from headwater.meta.store import CommitResult, Limits, T, Writes

Plan = Callable[[HeadSnapshot], tuple[Writes | Head, T]]
"""From what was seen to what is written; a ``Head`` is a commit that only purges."""

MAX_BATCH_VALUE_BYTES = 2**20
"""Values that are taken along; a commit holds up those of all brokers."""


@dataclass(slots=True, eq=False)
class PendingTransaction:
    """A transaction that waits for its turn, or for the one that took it along."""

    keys: Sequence[str]
    plan: Plan[Any]
    joins: bool
    """Whether others may travel with it; its plan then reads nothing but its keys."""
    outcome: CommitResult[Any] | BaseException | None = None

    def result(self) -> CommitResult[Any]:
        """What came of it; raises what it failed with."""
        assert self.outcome is not None
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


CommitBatch = list[tuple[PendingTransaction, Any]]
"""Transactions of one commit, each with its result."""


def batchable(
    first: PendingTransaction, waiting: Iterable[PendingTransaction], limits: Limits
) -> list[PendingTransaction]:
    """The call whose turn it is, and those behind it that may travel with it."""
    found, keys = [first], set(first.keys)
    if not first.joins:
        return found
    for call in waiting:
        if call is first or call.outcome is not None:
            continue
        keys.update(call.keys)
        if not call.joins or len(keys) > (limits.operations or len(keys)):
            break
        found.append(call)
    return found


def decide_batch(
    calls: Sequence[PendingTransaction], seen: HeadSnapshot, limits: Limits
) -> tuple[Writes | Head, CommitBatch]:
    """The writes of the first call and of those behind it, up to one that has to wait.

    Raises what the first one raises; another that fails is told so when its own turn comes.
    """
    first, *others = calls
    writes, result = first.plan(seen.of(first.keys))
    taken: CommitBatch = [(first, result)]
    if isinstance(writes, Head) or writes.range_deletes or not others:
        return writes, taken
    together = Writes(dict(writes.puts), dict(writes.ephemeral), list(writes.deletes))
    written, asked = {*writes.puts, *writes.deletes}, set(first.keys)
    size = sum(map(len, writes.puts.values()))
    for call in others:
        if not written.isdisjoint(call.keys):
            break
        try:
            more, result = call.plan(seen.of(call.keys))
            assert isinstance(more, Writes)
            check_writes(limits, more)
        except Exception:  # noqa: BLE001 - it is the caller's own, and raised in its own turn
            break
        touched = {*more.puts, *more.deletes}
        size += sum(map(len, more.puts.values()))
        count = sum(map(len, (together.puts, together.deletes, more.puts, more.deletes)))
        full = size > MAX_BATCH_VALUE_BYTES or count > (limits.operations or count)
        apart = (written | asked).isdisjoint(touched)
        if full or not apart or more.ephemeral or more.range_deletes:
            break
        together.puts.update(more.puts)
        together.deletes.extend(more.deletes)
        written |= touched
        asked.update(call.keys)
        taken.append((call, result))
    return together, taken
