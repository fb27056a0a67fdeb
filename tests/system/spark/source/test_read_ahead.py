"""Expected ranges are read before they are asked for, and no others."""

import threading
import time

import pytest

from headwater.errors import ObjectNotFound
from headwater.pipeline.read_ahead import AHEAD_BYTES, REQUESTS, ReadAhead


class NotingStore:
    """Notes what is read."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lock = threading.Lock()

    def read(self, key: str, start: int, length: int) -> bytearray:
        with self.lock:
            self.asked.append(key)
        if key == "gone":
            raise ObjectNotFound("gone: no such object")
        return bytearray(f"{key}:{start}:{length}", "ascii")


def wait_until_asked(store: NotingStore, count: int) -> None:
    deadline = time.monotonic() + 20
    while len(store.asked) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_is_expected_is_read_ahead_within_bounds_and_once() -> None:
    store = NotingStore()
    ahead = ReadAhead(store.read)
    ranges = [(str(number), number, 10) for number in range(30)]
    ahead.expect(iter(ranges))
    wait_until_asked(store, REQUESTS)
    assert len(store.asked) == REQUESTS
    assert [ahead.take(each) for each in ranges] == [
        bytearray(f"{key}:{start}:{length}", "ascii") for key, start, length in ranges
    ]
    assert sorted(store.asked, key=int) == [key for key, _, _ in ranges]
    ahead.close()


def test_large_ranges_are_not_all_held_at_once() -> None:
    store = NotingStore()
    ahead = ReadAhead(store.read)
    ahead.expect((str(number), 0, AHEAD_BYTES // 2) for number in range(6))
    wait_until_asked(store, 2)
    ahead.take(("0", 0, AHEAD_BYTES // 2))
    wait_until_asked(store, 3)
    assert len(store.asked) == 3
    ahead.close()


def test_an_unexpected_range_is_read_and_an_error_is_raised_on_take() -> None:
    store = NotingStore()
    ahead = ReadAhead(store.read)
    ahead.expect([("a", 0, 1), ("gone", 0, 1), ("b", 0, 1)])
    assert ahead.take(("other", 5, 2)) == b"other:5:2"
    assert ahead.take(("a", 0, 1)) == b"a:0:1"
    with pytest.raises(ObjectNotFound):
        ahead.take(("gone", 0, 1))
    assert ahead.take(("b", 0, 1)) == b"b:0:1"
    ahead.close()


def test_what_was_expected_before_is_forgotten() -> None:
    store = NotingStore()
    ahead = ReadAhead(store.read)
    ahead.expect([("a", 0, 1)])
    wait_until_asked(store, 1)
    ahead.expect([("b", 0, 1)])
    assert ahead.take(("a", 0, 1)) == b"a:0:1"
    wait_until_asked(store, 3)
    assert sorted(store.asked) == ["a", "a", "b"]
    ahead.close()
