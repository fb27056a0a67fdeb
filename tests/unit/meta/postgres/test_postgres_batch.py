"""Which transactions share a commit, without a database."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headwater.meta.postgres.batch import (
    MAX_BATCH_BYTES,
    PostgresBatch,
    QueuedTransaction,
    decide_batch,
)
from headwater.meta.store import Decide, Entry, Values, Writes

keys = st.text(alphabet="abc", min_size=1, max_size=2)
writes = st.builds(
    Writes,
    puts=st.dictionaries(keys, st.just(b""), max_size=3),
    deletes=st.lists(keys, max_size=2),
    range_deletes=st.lists(st.tuples(keys, keys), max_size=2),
)
transactions = st.lists(st.tuples(st.lists(keys, max_size=3), writes), max_size=8)


def writing(write: Writes) -> Decide[None]:
    return lambda values: (write, None)


def batch_of(
    asked: list[tuple[list[str], Writes]],
) -> tuple[PostgresBatch, list[QueuedTransaction]]:
    loop = asyncio.new_event_loop()
    try:
        waiting = [
            QueuedTransaction(read, writing(write), loop.create_future()) for read, write in asked
        ]
        seen: dict[str, Entry | None] = dict.fromkeys(key for read, _ in asked for key in read)
        return decide_batch(waiting, seen, 7), waiting
    finally:
        loop.close()


def touched(write: Writes, key: str) -> bool:
    named = key in write.puts or key in write.deletes
    return named or any(start <= key < end for start, end in write.range_deletes)


@given(transactions)
def test_keys_that_a_transaction_writes_are_not_used_by_later_ones_of_the_batch(
    asked: list[tuple[list[str], Writes]],
) -> None:
    batch, waiting = batch_of(asked)
    everything = [a + b for a in ("", "a", "b", "c") for b in ("", "a", "b", "c")]
    for number, decided in enumerate(batch.transactions):
        for earlier in batch.transactions[:number]:
            assert not any(touched(earlier.writes, key) for key in decided.queued.keys)
            assert not any(
                touched(earlier.writes, key) and touched(decided.writes, key) for key in everything
            )
    answered = [each for each in waiting if each.future.done()]
    committed = [decided.queued for decided in batch.transactions]
    assert {*map(id, answered), *map(id, committed), *map(id, batch.deferred)} == set(
        map(id, waiting)
    )
    assert len(answered) + len(committed) + len(batch.deferred) == len(waiting)
    assert committed[:1] == [each for each in waiting if each not in answered][:1]


def test_a_batch_is_bounded_and_one_large_transaction_is_committed_alone() -> None:
    large = Writes(puts={"a": bytes(MAX_BATCH_BYTES + 1)})
    small = Writes(puts={"b": b""})
    batch, waiting = batch_of([([], large), ([], small)])
    assert [decided.queued for decided in batch.transactions] == waiting[:1]
    assert batch.deferred == waiting[1:]


def test_every_key_that_was_read_is_compared_and_absence_is_zero() -> None:
    def decide(values: Values) -> tuple[Writes, None]:
        return Writes(puts={"a": b"1"}, deletes=["a", "b", "b"]), None

    loop = asyncio.new_event_loop()
    waiting = QueuedTransaction(["a", "none"], decide, loop.create_future())
    seen = {"a": Entry("a", b"0", 5), "none": None, "another": Entry("another", b"", 6)}
    arguments = decide_batch([waiting], seen, 7).arguments(seen)
    loop.close()
    assert arguments[:4] == [["a", "none"], [5, 0], 1, 2]
    assert arguments[4:8] == [[1], ["a"], [b"1"], [None]]
    assert arguments[8:10] == [[1], ["b"]]
