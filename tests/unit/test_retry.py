from itertools import islice
from random import Random

import pytest

from headwater.retry import Backoff, retry

QUICK = Backoff(first=0.0, longest=0.0, attempts=3)


class Failing:
    """Fails a number of times; ``failed`` collects the errors that the retry reported."""

    def __init__(self, failures: int, error: type[Exception] = OSError) -> None:
        self.left = failures
        self.error = error
        self.failed: list[str] = []

    async def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error(f"{self.left} left")
        return "done"

    async def retried(self) -> str:
        return await retry(
            self,
            on=OSError,
            pauses=QUICK.pauses(),
            failed=lambda error: self.failed.append(str(error)),
        )


def test_pauses_double_up_to_the_longest_and_are_jittered() -> None:
    backoff = Backoff(first=1, longest=10, jitter=(0, 1))
    random = Random(4)
    series = [list(islice(backoff.pauses(random), 50)) for _ in range(200)]
    for failures, longest in ((1, 1), (2, 2), (4, 8), (5, 10), (50, 10)):
        pauses = [each[failures - 1] for each in series]
        assert 0 <= min(pauses) < longest / 10
        assert longest * 0.9 < max(pauses) <= longest


def test_no_attempt_begins_after_the_total_time() -> None:
    now = 100.0
    pauses = Backoff(first=1, longest=1, total=2.5).pauses(None, lambda: now)
    found = []
    for pause in pauses:
        found.append(pause)
        now += pause
    assert found == [1, 1]


async def test_attempts_are_made_until_one_succeeds() -> None:
    work = Failing(2)
    assert await work.retried() == "done"
    assert work.failed == ["1 left", "0 left"]


async def test_the_last_error_is_raised_when_attempts_are_used_up() -> None:
    work = Failing(4)
    with pytest.raises(OSError, match="1 left"):
        await work.retried()
    assert work.failed == ["3 left", "2 left"]


async def test_another_error_is_raised_at_once() -> None:
    work = Failing(2, ValueError)
    with pytest.raises(ValueError, match="1 left"):
        await work.retried()
    assert work.failed == []
