"""The checker complains about each broken promise, and about nothing else."""

from dataclasses import replace

import pytest

from tests.system.invariants.checker import violations
from tests.system.invariants.history import FinalLog, History, Polled, Produced, Trimmed


def produced(number: int, offset: int | None, *, idempotent: bool = True) -> Produced:
    producer = "i" if idempotent else "p"
    values = tuple(f"{producer}:{number}:{index}".encode() for index in range(2))
    time = float(number)
    return Produced(
        producer=producer, idempotent=idempotent, number=number, partition=0, broker=1,
        values=values, offset=offset, error=0, invoked=time, completed=time + 0.5,
    )  # fmt: skip


def records(*batches: Produced, start: int = 0) -> tuple[tuple[int, bytes], ...]:
    return tuple(enumerate((value for one in batches for value in one.values), start))


def polled(asked: int, *batches: Produced, high_watermark: int = 6, at: float = 0.1) -> Polled:
    return Polled(
        connection=1, broker=2, partition=0, asked=asked, error=0,
        records=records(*batches, start=asked), high_watermark=high_watermark, log_start=0,
        invoked=at, completed=at,
    )  # fmt: skip


def final(*batches: Produced, start: int = 0, broker: int = 1) -> FinalLog:
    held = records(*batches, start=start)
    return FinalLog(broker, 0, start, start + len(held), held)


A, B, C = produced(0, 0), produced(1, 2), produced(2, 4)
PLAIN = produced(0, 6, idempotent=False)
FIRST, SECOND = (
    replace(produced(number, None, idempotent=False), ordered=True, retried=True)
    for number in (0, 1)
)


def test_a_good_history_has_no_violations() -> None:
    lost = replace(B, offset=None)
    history = History(
        produced=[A, lost, B, C, PLAIN, replace(PLAIN, offset=None)],
        polled=[polled(0, A, B), polled(4, C, at=1), polled(8, high_watermark=8, at=2)],
        finals=[final(A, B, C, PLAIN, PLAIN), final(A, B, C, PLAIN, PLAIN, broker=2)],
    )
    assert violations(history) == []


def test_a_retry_without_a_producer_id_may_append_a_batch_twice() -> None:
    history = History([FIRST, SECOND], finals=[final(FIRST, SECOND, FIRST)])
    assert violations(history) == []


def test_a_poll_may_say_that_a_store_is_away_only_where_one_was() -> None:
    history = History([A], [replace(polled(0), error=56)])
    assert violations(history, away={56}) == []
    assert "a poll at 0 with error 56" in violations(history)[0]


def test_what_was_trimmed_may_be_out_of_range_and_gone() -> None:
    history = History(
        produced=[A, B, C],
        polled=[replace(polled(0), error=1, high_watermark=-1)],
        trimmed=[Trimmed(0, 2, 2, 0.0)],
        finals=[final(B, C, start=2)],
    )
    assert violations(history) == []


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (History([A, replace(B, offset=0)]), "offset 0 holds"),
        (History([A, B], finals=[final(A)]), "was acknowledged at 2 by broker 1"),
        (
            History([A, replace(B, offset=None, delivered=True)], finals=[final(A)]),
            "b'i:1:0' was reported as delivered, broker 1 does not have it",
        ),
        (
            History([A, B], finals=[final(A, B), final(A, broker=2)]),
            "brokers 1 and 2 have different logs",
        ),
        (
            History([A, C], finals=[FinalLog(1, 0, 0, 6, records(A))]),
            "broker 1 has offsets 0-1 of 0 to 6",
        ),
        (History([A], finals=[final(A, C)]), "nobody sent b'i:2:0'"),
        (History([A], [polled(0, A, B)]), "nobody sent b'i:1:0'"),
        (
            History([A], [replace(polled(0), records=((0, A.values[0]),))]),
            "ends inside the batch of b'i:0:0'",
        ),
        (
            History([A, B], [replace(polled(0), records=((0, A.values[0]), (1, B.values[0])))]),
            "shows b'i:0:0' without its batch",
        ),
        (
            History([PLAIN], finals=[final(PLAIN, PLAIN)]),
            "was sent 1 times and is there 2 times",
        ),
        (
            History([A, replace(A, offset=None)], finals=[final(A, A)]),
            "of an idempotent producer is at [0, 2]",
        ),
        (
            History([replace(A, offset=None), replace(B, offset=None)], finals=[final(B, A)]),
            "in the order 1, 0",
        ),
        (History([replace(B, offset=None)], finals=[final(B)]), "in the order 1"),
        (
            History([FIRST, SECOND], finals=[final(SECOND, FIRST, SECOND)]),
            "has batch 0 first at 2, behind batch 1",
        ),
        (History([replace(A, offset=None, error=45)]), "i was refused batch 0: error 45"),
        (History([A], [replace(polled(0), error=3)]), "a poll at 0 with error 3"),
        (
            History([A, B], [replace(polled(0, B), records=records(B, start=2))]),
            "at 0 got 2-3",
        ),
        (History([A], [polled(0, A, high_watermark=1)]), "showed offset 1 above"),
        (History([A], [polled(0)]), "showed nothing at 0 below its high watermark 6"),
        (History([A], [replace(polled(0), error=1)]), "called offset 0 out of range"),
        (
            History(
                [A],
                [replace(polled(4), error=1)],
                trimmed=[Trimmed(0, 2, 2, 0), Trimmed(0, 9, 9, 5)],
            ),
            "called offset 4 out of range",
        ),
        (History([A], [polled(0, A), polled(2, high_watermark=5, at=9)]), "went back from 6 to 5"),
        (
            History([A], [replace(polled(0, A), log_start=2), polled(2, at=9)]),
            "the log start of broker 2 went back",
        ),
        (
            History([B], [replace(polled(2, high_watermark=3, at=9), broker=1)]),
            "had acknowledged up to 4",
        ),
        (
            History([A], trimmed=[Trimmed(0, 2, 2, 0.0)], finals=[final(A)]),
            "log start is 0, it was moved to 2",
        ),
    ],
)
def test_each_broken_promise_is_named(history: History, complaint: str) -> None:
    assert any(complaint in text for text in violations(history)), violations(history)
