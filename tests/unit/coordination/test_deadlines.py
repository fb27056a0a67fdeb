"""Deadlines fire once, in order, and a moved one never early."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.coordination.deadlines import Deadlines

KEYS = st.sampled_from("abcdef")
SET = st.tuples(st.just("set"), KEYS, st.integers(0, 20))
CANCEL = st.tuples(st.just("cancel"), KEYS, st.just(0))
WAIT = st.tuples(st.just("wait"), st.just(""), st.integers(0, 8))


@given(st.lists(st.one_of(SET, CANCEL, WAIT), max_size=60))
def test_timers_fire_like_a_plain_table_of_deadlines(
    actions: list[tuple[str, str, int]],
) -> None:
    timers, table, now = Deadlines(), dict[str, float](), 0.0
    for action, key, number in actions:
        if action == "set":
            timers.set(key, now + number)
            table[key] = now + number
        elif action == "cancel":
            timers.cancel(key)
            table.pop(key, None)
        else:
            now += number
            fired = []
            while (due := timers.pop_due(now)) is not None:
                fired.append(due)
            expected = {key: at for key, at in table.items() if at <= now}
            assert sorted(fired) == sorted(expected)
            assert [table[key] for key in fired] == sorted(expected.values())
            table = {key: at for key, at in table.items() if at > now}
        if table:
            due_at = timers.next()
            assert due_at is not None
            assert due_at <= min(table.values())
        else:
            assert timers.next() is None


def test_members_that_join_and_leave_leave_nothing_behind() -> None:
    timers = Deadlines()
    timers.set("kept", 1e9)
    for number in range(10_000):
        timers.set(str(number), 1e6 + number)
        timers.cancel(str(number))
    assert len(timers._heap) < 200
    assert timers.pop_due(2e6) is None
    assert timers.pop_due(1e9) == "kept"


def test_a_postponed_deadline_fires_at_its_new_time() -> None:
    timers = Deadlines()
    timers.set("a", 1.0)
    timers.set("c", 0.0)
    timers.set("c", 2.0)
    assert [timers.pop_due(2.0), timers.pop_due(2.0), timers.pop_due(2.0)] == ["a", "c", None]
