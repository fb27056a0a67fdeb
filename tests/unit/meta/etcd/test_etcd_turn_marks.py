"""A mark delays the transactions of other processes, once and within bounds."""

import pytest

from headwater.meta.etcd.rpc import etcd_pb2 as pb
from headwater.meta.etcd.turn_marks import MAX_PAUSE_SECONDS, MIN_PAUSE_SECONDS, TurnMarks

DOMAIN = 3


@pytest.fixture
def marks() -> TurnMarks:
    return TurnMarks("prod")


def found(operation: pb.RequestOp, revision: int) -> list[pb.KeyValue]:
    """The mark that ``operation`` puts, as a look finds it."""
    put = operation.request_put
    return [pb.KeyValue(key=put.key, value=put.value, mod_revision=revision)]


def test_without_a_mark_nothing_waits(marks: TurnMarks) -> None:
    marks.observe(DOMAIN, [], now=100)
    assert marks.pause_until(DOMAIN) == 0


@pytest.mark.parametrize(
    ("attempt", "asked"),
    [(0.0, MIN_PAUSE_SECONDS), (0.02, 0.06), (60.0, MAX_PAUSE_SECONDS)],
)
def test_a_mark_asks_for_the_time_of_some_attempts(
    marks: TurnMarks, attempt: float, asked: float
) -> None:
    marks.observe(DOMAIN, found(marks.put_mark(DOMAIN, attempt), 7), now=100)
    assert marks.pause_until(DOMAIN) == pytest.approx(100 + asked)
    assert marks.pause_until(DOMAIN + 1) == 0


def test_a_mark_causes_one_pause_and_a_newer_mark_another(marks: TurnMarks) -> None:
    asking = marks.put_mark(DOMAIN, 0.02)
    marks.observe(DOMAIN, found(asking, 7), now=100)
    marks.observe(DOMAIN, found(asking, 7), now=200)
    assert marks.pause_until(DOMAIN) == pytest.approx(100.06)
    marks.observe(DOMAIN, found(asking, 8), now=200)
    assert marks.pause_until(DOMAIN) == pytest.approx(200.06)


def test_a_deleted_mark_causes_no_pause(marks: TurnMarks) -> None:
    marks.observe(DOMAIN, found(marks.put_mark(DOMAIN, 0.02), 7), now=100)
    marks.observe(DOMAIN, [], now=100)
    assert marks.pause_until(DOMAIN) == 0


def test_pauses_take_at_most_a_quarter_of_the_time_however_many_marks_there_are(
    marks: TurnMarks,
) -> None:
    held = 0.0
    for tick in range(1_000):
        now = 100 + tick / 100
        marks.observe(DOMAIN, found(marks.put_mark(DOMAIN, 0.05), tick), now)
        held += 0.01 if marks.pause_until(DOMAIN) > now else 0.0
    assert 2.0 < held <= 2.8


@pytest.mark.parametrize(
    ("value", "asked"),
    [(b"9999999", MAX_PAUSE_SECONDS), (b"60 of another release", MIN_PAUSE_SECONDS)],
)
def test_a_mark_is_never_an_error(marks: TurnMarks, value: bytes, asked: float) -> None:
    key = marks.put_mark(DOMAIN, 0.02).request_put.key
    marks.observe(DOMAIN, [pb.KeyValue(key=key, value=value, mod_revision=7)], now=100)
    assert marks.pause_until(DOMAIN) == pytest.approx(100 + asked)


def test_the_key_of_the_mark_is_outside_of_the_prefix(marks: TurnMarks) -> None:
    for operation in (
        marks.read_mark(DOMAIN).request_range,
        marks.delete_mark(DOMAIN).request_delete_range,
    ):
        assert operation.key == marks.put_mark(DOMAIN, 0).request_put.key
        assert not operation.key.startswith(b"prod/")
