"""Measures rates and computes throttle times, with Kafka's arithmetic.

A rate is measured over the last eleven samples of one second each; the last one is incomplete.
Missing samples count as empty, so that a burst after a pause is measured over ten seconds. Times
are in milliseconds of a monotonic clock.
"""

from collections import deque
from typing import Final

SAMPLES: Final = 11
"""``quota.window.num``."""
SAMPLE_MS: Final = 1000
"""``quota.window.size.seconds``."""
WINDOW_SECONDS: Final = (SAMPLES - 1) * SAMPLE_MS // 1000
"""A client may use its limit times this in one burst without being throttled."""


class _Sample:
    __slots__ = ("last", "start", "value")

    def __init__(self, now: int) -> None:
        self.start = now
        self.last = now
        self.value = 0.0


class RateWindow:
    """The usage in the last eleven samples."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def record(self, amount: float, now: int) -> None:
        """Count ``amount``; a negative one undoes an earlier count."""
        samples = self._samples
        if not samples or now - samples[-1].start >= SAMPLE_MS:
            self._drop_old(now)
            samples.append(_Sample(now))
        sample = samples[-1]
        sample.value += amount
        sample.last = now

    def rate(self, now: int) -> float:
        """The usage per second."""
        self._drop_old(now)
        return sum(sample.value for sample in self._samples) * 1000 / self._window_ms(now)

    def throttle_ms(self, limit: float, now: int) -> int:
        """After this time without usage the rate is down to ``limit``."""
        rate = self.rate(now)
        if rate <= limit:
            return 0
        return round((rate - limit) / limit * self._window_ms(now))

    def is_idle(self, now: int) -> bool:
        """Whether the window is empty."""
        self._drop_old(now)
        return not self._samples

    def _drop_old(self, now: int) -> None:
        samples = self._samples
        while samples and now - samples[0].last >= SAMPLES * SAMPLE_MS:
            samples.popleft()

    def _window_ms(self, now: int) -> int:
        """The time over which the rate is measured: at least ten samples."""
        elapsed = now - self._samples[0].start if self._samples else 0
        missing = SAMPLES - 1 - elapsed // SAMPLE_MS
        return max(1, elapsed + max(0, missing) * SAMPLE_MS)


class TokenBucket:
    """Allows bursts: it holds the tokens of eleven seconds, and one request may overdraw it."""

    __slots__ = ("_limit", "_refilled", "_tokens")

    def __init__(self, limit: float, now: int) -> None:
        self._limit = limit
        self._tokens = limit * SAMPLES * SAMPLE_MS / 1000
        self._refilled = now

    def change_limit(self, limit: float, now: int) -> None:
        """Refill at another rate from now on."""
        self._refill(now)
        self._limit = limit
        self._refill(now)

    def take(self, tokens: float, now: int) -> None:
        self._refill(now)
        self._tokens -= tokens

    def throttle_ms(self, now: int) -> int:
        """The time until the bucket is no longer overdrawn."""
        self._refill(now)
        return round(-self._tokens / self._limit * 1000) if self._tokens < 0 else 0

    def is_idle(self, now: int) -> bool:
        """Whether the bucket is full."""
        self._refill(now)
        return self._tokens >= self._limit * SAMPLES * SAMPLE_MS / 1000

    def _refill(self, now: int) -> None:
        full = self._limit * SAMPLES * SAMPLE_MS / 1000
        self._tokens = min(full, self._tokens + self._limit * (now - self._refilled) / 1000)
        self._refilled = now
