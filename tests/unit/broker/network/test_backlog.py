"""The counts of a connection's unanswered requests, in any order of events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.network.backlog import MAX_WAITING_REQUESTS, Backlog
from headwater.broker.network.pending_request import PendingRequest
from headwater.broker.settings import BrokerSettings

SETTINGS = BrokerSettings(max_queued_requests=1_000, max_queued_bytes=5_000)
MAX_UNANSWERED_BYTES = 9_000


def request(size: int, **known: Any) -> PendingRequest:
    made = PendingRequest(None, None, None, size, 0.0)  # type: ignore[arg-type]
    for name, value in known.items():
        setattr(made, name, value)
    return made


@given(st.lists(st.tuples(st.sampled_from("atrk"), st.integers(1, 3_000)), max_size=60))
def test_bytes_are_counted_for_the_requests_in_the_backlog(steps: list[tuple[str, int]]) -> None:
    backlog = Backlog(SETTINGS, MAX_UNANSWERED_BYTES)
    arrived: list[PendingRequest] = []
    left: list[PendingRequest] = []
    for step, number in steps:
        match step:
            case "a":
                arrived.append(request(number))
                backlog.add(arrived[-1])
            case "t" if backlog.waiting:
                backlog.start_next()
            case "r" if backlog.unanswered:
                backlog.unanswered[number % len(backlog.unanswered)].reply = []
                left += backlog.pop_answered()
            case "k":
                gone = list(backlog.waiting)[number % 3 :]
                backlog.drop_waiting(list(backlog.waiting)[: number % 3])
                arrived = [one for one in arrived if one not in gone]
        assert arrived == [*left, *backlog.unanswered, *backlog.waiting], "in order of arrival"
        waiting = sum(one.size for one in backlog.waiting)
        unanswered = sum(one.size for one in backlog.unanswered)
        assert backlog.full == (waiting >= 5_000 or unanswered >= MAX_UNANSWERED_BYTES)
        assert backlog.empty == (not backlog.waiting and not backlog.unanswered)


@pytest.mark.parametrize(("taken_up", "most"), [(False, MAX_WAITING_REQUESTS), (True, 1_000)])
def test_more_requests_may_be_unanswered_than_waiting(taken_up: bool, most: int) -> None:
    backlog = Backlog(SETTINGS, MAX_UNANSWERED_BYTES)
    for _ in range(most):
        assert not backlog.full
        backlog.add(request(1))
        if taken_up:
            backlog.start_next()
    assert backlog.full
