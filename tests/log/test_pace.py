"""How far apart flushes are where PUTs are paid for."""

from random import Random

import pytest

from headwater.log.pace import MOST_OWED, PATIENCE, Pace

INTERVAL = 0.2


def _flushes(pace: Pace, seconds: float, took: float, merges: float, now: float = 100.0) -> float:
    """PUTs a second where every flush begins as soon as it may, and merges come at random."""
    rng, began, puts = Random(1), now, 0
    while now < began + seconds:
        pace.begins(now)
        puts += 1
        pace.ended(took)
        if rng.random() < merges * INTERVAL:
            pace.merged()
            puts += 1
        now = pace.not_before
    return puts / (now - began)


def test_without_merges_flushes_are_one_interval_apart() -> None:
    pace = Pace(INTERVAL)
    pace.begins(10.0)
    assert pace.not_before == pytest.approx(10.2)


@pytest.mark.parametrize("merges", [0.1, 0.3])
def test_a_merge_takes_the_place_of_a_flush(merges: float) -> None:
    rate = _flushes(Pace(INTERVAL), 600, 0.015, merges)
    assert 0.97 / INTERVAL < rate <= 1 / INTERVAL


def test_producers_do_not_wait_longer_than_patience_allows() -> None:
    pace = Pace(INTERVAL)
    pace.begins(9.8)
    for _ in range(10):
        pace.merged()
    now = 10.0
    for took in (0.0, 0.01, 0.02, 0.03):
        for _ in range(100):
            pace.ended(took)
        pace.begins(now)
        assert pace.not_before - now + took == pytest.approx(PATIENCE * INTERVAL)
        now = pace.not_before


def test_slow_flushes_do_not_wait_for_merges() -> None:
    pace = Pace(INTERVAL)
    pace.begins(9.8)
    for _ in range(50):
        pace.ended(0.3)
    pace.merged()
    pace.begins(10.0)
    assert pace.not_before == pytest.approx(10.2)


def test_time_without_flushes_makes_merges_good() -> None:
    pace = Pace(INTERVAL)
    pace.begins(10.0)
    pace.merged()
    pace.begins(10.5)
    assert pace.not_before == pytest.approx(10.7)


def test_what_is_owed_has_a_bound() -> None:
    pace = Pace(INTERVAL)
    pace.begins(9.8)
    for _ in range(10_000):
        pace.merged()
    now, flushes = 10.0, 0
    while True:
        pace.begins(now)
        flushes += 1
        if pace.not_before - now < INTERVAL + 1e-9:
            break
        now = pace.not_before
    assert flushes == pytest.approx(MOST_OWED / (PATIENCE - 1), abs=2)


def test_a_free_store_knows_no_pace() -> None:
    pace = Pace(0.0)
    pace.merged()
    pace.begins(10.0)
    assert pace.not_before == 10.0
