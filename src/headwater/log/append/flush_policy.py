"""Which appends skip the flush interval of a remote object store.

On a remote store each object costs money, so flushes that make an object keep
``log.flush_interval_ms``. Small appends need no object: they can be committed at once, inside the
metadata transaction (inline). At most one such flush runs at a time, and all those of one interval
together carry at most ``inline_bytes``.

A busy stream is excluded until it calms down, so that it does not use up the budget of the others.
"""

from collections.abc import Mapping

BUSY_FRACTION = 1 / 16
"""A stream that fills more than this fraction of ``inline_bytes`` in one flush is busy."""
BUSY_SECONDS = 2.0
"""How long a stream stays busy. Longer than one flush, since a busy stream may miss a flush."""


class InlineAdmission:
    """Decides which appends are committed inline before the next flush is due.

    ``interval`` is the minimum time between two objects, in seconds. If it is 0, nothing has to
    skip it and nothing is admitted.
    """

    def __init__(self, interval: float, inline_bytes: int) -> None:
        self._interval = interval
        self._inline_bytes = inline_bytes
        self._busy_until: dict[int, float] = {}
        """By stream."""
        self.flush_is_running = False
        """True while an inline flush that skipped the interval is running."""
        self._interval_end = 0.0
        self._admitted_bytes = 0
        """Bytes admitted in the interval that ends at ``_interval_end``."""

    def is_busy(self, stream: int, now: float) -> bool:
        return now < self._busy_until.get(stream, 0.0)

    def object_flushed(self, sizes: Mapping[int, int], now: float) -> None:
        """A flush with these bytes by stream makes an object; its large streams become busy.

        A flush that would have fitted inline makes no stream busy.
        """
        if self._interval and sum(sizes.values()) > self._inline_bytes:
            threshold = self._inline_bytes * BUSY_FRACTION
            busy = {stream: until for stream, until in self._busy_until.items() if until > now}
            for stream, size in sizes.items():
                if size > threshold:
                    busy[stream] = now + BUSY_SECONDS
            self._busy_until = busy

    def has_budget(self, size: int, now: float) -> bool:
        """Whether ``size`` bytes may be flushed inline in this interval."""
        admitted = self._admitted_bytes if now < self._interval_end else 0
        return self._interval > 0 and 0 < size <= self._inline_bytes - admitted

    def flush_started(self, size: int, now: float) -> None:
        if now >= self._interval_end:
            self._interval_end = now + self._interval
            self._admitted_bytes = 0
        self._admitted_bytes += size
        self.flush_is_running = True

    def flush_ended(self) -> None:
        self.flush_is_running = False
