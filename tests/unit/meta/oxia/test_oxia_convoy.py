"""Which transactions travel as one commit on Oxia, without a server."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.meta.oxia.group_commit import PendingTransaction, batchable, decide_batch
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import ABSENT, Head, StoredKey
from headwater.meta.store import CommitResult, Limits, Writes

LIMITS = Limits(operations=6, value_bytes=100)
SEEN = HeadSnapshot(Head(), ABSENT, {key: StoredKey(ABSENT, None, 0) for key in "abcdef"})


def call(keys: str, writes: Writes | None = None, *, joins: bool = True) -> PendingTransaction:
    return PendingTransaction(
        list(keys), lambda seen: (writes or Writes(), sorted(seen.records)), joins
    )


def puts(keys: str, value: bytes = b"") -> Writes:
    return Writes(puts=dict.fromkeys(keys, value))


def together(*calls: PendingTransaction) -> list[PendingTransaction]:
    writes, taken = decide_batch(calls, SEEN, LIMITS)
    assert isinstance(writes, Writes)
    return [each for each, _ in taken]


def test_each_sees_its_own_keys() -> None:
    _, taken = decide_batch([call("ab", puts("a")), call("c", puts("c")), call("d")], SEEN, LIMITS)
    assert [result for _, result in taken] == [["a", "b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(call("a", puts("a")), call("a", puts("b")), id="asks for what is written"),
        pytest.param(call("ab", puts("a")), call("c", puts("b")), id="writes what was asked for"),
        pytest.param(call("a", puts("c")), call("b", puts("c")), id="writes what is written"),
        pytest.param(
            call("a", puts("c")), call("b", Writes(deletes=["c"])), id="deletes what is written"
        ),
        pytest.param(
            call("a", puts("a")), call("b", Writes(range_deletes=[("b", "c")])), id="ranges"
        ),
        pytest.param(call("a", Writes(range_deletes=[("b", "c")])), call("d"), id="behind a range"),
        pytest.param(
            call("a"), call("b", Writes(puts={"b": b""}, ephemeral={"b": "s"})), id="sessions"
        ),
        pytest.param(call("a"), call("b", puts("b", b"x" * 101)), id="too large"),
        pytest.param(call("a", puts("abc")), call("d", puts("def" + "g")), id="too many"),
    ],
)
def test_who_is_not_apart_waits_and_so_do_those_behind(
    first: PendingTransaction, second: PendingTransaction
) -> None:
    assert together(first, second, call("f", puts("f"))) == [first]


def test_one_that_asks_for_what_is_written_is_not_run() -> None:
    def never(_seen: HeadSnapshot) -> tuple[Writes, Any]:
        raise AssertionError("it would see what is about to change")

    first = call("a", puts("a"))
    assert together(first, PendingTransaction(["a"], never, joins=True)) == [first]


def test_a_failure_is_left_to_its_own_turn() -> None:
    def fails(_seen: HeadSnapshot) -> tuple[Writes, Any]:
        raise LookupError

    first, failing = call("a", puts("a")), PendingTransaction(["b"], fails, joins=True)
    assert together(first, failing) == [first]
    with pytest.raises(LookupError):
        together(failing, first)


@pytest.mark.parametrize(
    ("stranger", "expected"),
    [
        (lambda: call("b"), 3),
        (lambda: call("b", joins=False), 1),
        (lambda: call("bcdefgh"), 1),
    ],
)
def test_those_behind_travel_up_to_one_that_cannot(
    stranger: Callable[[], PendingTransaction], expected: int
) -> None:
    first, done = call("a"), call("z")
    done.outcome = CommitResult(1, None)
    waiting = [done, first, stranger(), call("c")]
    assert len(batchable(first, waiting, LIMITS)) == expected
    assert batchable(call("a", joins=False), waiting, LIMITS)[1:] == []
