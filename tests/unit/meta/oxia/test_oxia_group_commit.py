"""Which transactions share a commit on Oxia, without a server."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.meta.oxia.group_commit import PendingTransaction, batchable, decide_batch
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import ABSENT, Head, StoredKey
from headwater.meta.store import CommitResult, Limits, Writes

LIMITS = Limits(operations=6, value_bytes=100)
SEEN = HeadSnapshot(Head(), ABSENT, {key: StoredKey(ABSENT, None, 0) for key in "abcdef"})


def pending(
    keys: str, writes: Writes | None = None, *, shareable: bool = True
) -> PendingTransaction:
    return PendingTransaction(
        list(keys), lambda seen: (writes or Writes(), sorted(seen.records)), shareable
    )


def puts(keys: str, value: bytes = b"") -> Writes:
    return Writes(puts=dict.fromkeys(keys, value))


def committed_together(*calls: PendingTransaction) -> list[PendingTransaction]:
    writes, batch = decide_batch(calls, SEEN, LIMITS)
    assert isinstance(writes, Writes)
    return [each for each, _ in batch]


def test_each_transaction_sees_its_own_keys() -> None:
    _, batch = decide_batch(
        [pending("ab", puts("a")), pending("c", puts("c")), pending("d")], SEEN, LIMITS
    )
    assert [result for _, result in batch] == [["a", "b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(pending("a", puts("a")), pending("a", puts("b")), id="reads a written key"),
        pytest.param(pending("ab", puts("a")), pending("c", puts("b")), id="writes a read key"),
        pytest.param(pending("a", puts("c")), pending("b", puts("c")), id="writes a written key"),
        pytest.param(
            pending("a", puts("c")), pending("b", Writes(deletes=["c"])), id="deletes a written key"
        ),
        pytest.param(
            pending("a", puts("a")), pending("b", Writes(range_deletes=[("b", "c")])), id="ranges"
        ),
        pytest.param(
            pending("a", Writes(range_deletes=[("b", "c")])), pending("d"), id="behind a range"
        ),
        pytest.param(
            pending("a"), pending("b", Writes(puts={"b": b""}, ephemeral={"b": "s"})), id="sessions"
        ),
        pytest.param(pending("a"), pending("b", puts("b", b"x" * 101)), id="too large"),
        pytest.param(pending("a", puts("abc")), pending("d", puts("def" + "g")), id="too many"),
    ],
)
def test_a_transaction_with_overlapping_keys_waits_and_so_do_later_ones(
    first: PendingTransaction, second: PendingTransaction
) -> None:
    assert committed_together(first, second, pending("f", puts("f"))) == [first]


def test_a_transaction_that_reads_written_keys_is_not_run() -> None:
    def never(_seen: HeadSnapshot) -> tuple[Writes, Any]:
        raise AssertionError("it would see what is about to change")

    first = pending("a", puts("a"))
    assert committed_together(first, PendingTransaction(["a"], never, shareable=True)) == [first]


def test_a_failing_transaction_ends_the_batch_and_fails_alone_later() -> None:
    def fails(_seen: HeadSnapshot) -> tuple[Writes, Any]:
        raise LookupError

    first, failing = pending("a", puts("a")), PendingTransaction(["b"], fails, shareable=True)
    assert committed_together(first, failing) == [first]
    with pytest.raises(LookupError):
        committed_together(failing, first)


@pytest.mark.parametrize(
    ("stranger", "expected"),
    [
        (lambda: pending("b"), 3),
        (lambda: pending("b", shareable=False), 1),
        (lambda: pending("bcdefgh"), 1),
    ],
)
def test_waiting_transactions_are_batched_up_to_one_that_cannot_be(
    stranger: Callable[[], PendingTransaction], expected: int
) -> None:
    first, done = pending("a"), pending("z")
    done.outcome = CommitResult(1, None)
    waiting = [done, first, stranger(), pending("c")]
    assert len(batchable(first, waiting, LIMITS)) == expected
    assert batchable(pending("a", shareable=False), waiting, LIMITS)[1:] == []
