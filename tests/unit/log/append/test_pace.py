"""How far apart flushes are where PUTs are paid for."""

from random import Random

import pytest

from headwater.log.append.pace import LIGHT, MOST, PATIENCE, SHARE, Pace

INTERVAL = 0.2
MERGE_BYTES = 1_000_000


def _flushes(pace: Pace, seconds: float, took: float, merges: float, now: float = 100.0) -> float:
    """PUTs a second where every flush begins as soon as it may, and merges come at random."""
    rng, began, puts = Random(1), now, 0
    while now < began + seconds:
        pace.begins(now, 0)
        puts += 1
        pace.ended(took)
        if rng.random() < merges * INTERVAL:
            pace.merged()
            puts += 1
        now = pace.not_before
    return puts / (now - began)


def test_without_merges_flushes_are_one_interval_apart() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    pace.begins(10.0, 0)
    assert pace.not_before == pytest.approx(10.2)


@pytest.mark.parametrize("merges", [0.1, 0.3])
def test_a_merge_takes_the_place_of_a_flush(merges: float) -> None:
    rate = _flushes(Pace(INTERVAL, MERGE_BYTES), 600, 0.015, merges)
    assert 0.98 / INTERVAL < rate <= 1.002 / INTERVAL


def test_producers_do_not_wait_longer_than_patience_allows() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    pace.begins(9.8, 0)
    for _ in range(10):
        pace.merged()
    now = 10.0
    for took in (0.0, 0.01, 0.02, 0.03):
        for _ in range(100):
            pace.ended(took)
        pace.begins(now, 0)
        assert pace.not_before - now + took == pytest.approx(PATIENCE * INTERVAL)
        now = pace.not_before


def test_slow_flushes_do_not_wait_for_merges() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    pace.begins(9.8, 0)
    for _ in range(50):
        pace.ended(0.3)
    pace.merged()
    pace.begins(10.0, 0)
    assert pace.not_before == pytest.approx(10.2)


def test_time_without_flushes_makes_merges_good() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    pace.begins(10.0, 0)
    pace.merged()
    pace.begins(10.5, 0)
    assert pace.not_before == pytest.approx(10.7)


def test_what_is_owed_has_a_bound() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    pace.begins(9.8, 0)
    for _ in range(10_000):
        pace.merged()
    now, flushes = 10.0, 0
    while True:
        pace.begins(now, 0)
        flushes += 1
        if pace.not_before - now < INTERVAL + 1e-9:
            break
        now = pace.not_before
    assert flushes == pytest.approx(MOST / (PATIENCE - 1), abs=2)


def _pay(pace: Pace, flushes: int, size: int, now: float = 100.0) -> float:
    """Seconds that so many flushes, each as soon as it may be, come later than an interval."""
    began = now
    for _ in range(flushes):
        pace.begins(now, size)
        now = pace.not_before
    return now - began - flushes * INTERVAL


def test_a_light_load_pays_for_its_merges_before_they_come() -> None:
    """Each merge takes in what ``part`` of the flushes wrote; they come all at once, and late."""
    part = 1 / 16
    pace = Pace(INTERVAL, MERGE_BYTES)
    size, flushes = int(part * MERGE_BYTES), 128
    assert _pay(pace, flushes, size) == pytest.approx(SHARE * part * flushes * INTERVAL, rel=0.01)
    for _ in range(int(flushes * part)):
        pace.merged()
    assert _pay(pace, 1, 0, 200.0) == pytest.approx(0.0, abs=1e-9)


def test_what_is_paid_beforehand_has_a_bound() -> None:
    """Records that are never merged cost their producers nothing in the long run."""
    pace = Pace(INTERVAL, MERGE_BYTES)
    assert _pay(pace, 10_000, int(LIGHT * MERGE_BYTES)) == pytest.approx(MOST * INTERVAL)


def test_a_heavy_load_pays_for_no_merge_before_it_comes() -> None:
    pace = Pace(INTERVAL, MERGE_BYTES)
    assert _pay(pace, 10, MERGE_BYTES // 4) == pytest.approx(0.0, abs=1e-9)
    pace.merged()
    assert _pay(pace, 10, MERGE_BYTES // 4, pace.not_before) == pytest.approx(INTERVAL)


def test_a_free_store_knows_no_pace() -> None:
    pace = Pace(0.0, MERGE_BYTES)
    pace.merged()
    pace.begins(10.0, 0)
    assert pace.not_before == 10.0
