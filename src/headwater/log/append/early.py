"""Which records wait for no PUT where objects are paid for: those of streams that are not busy.

What goes early travels inside a metadata transaction. One such flush is under way at a time, and
within one interval no more goes so than one may hold: what is produced faster is worth an object. A
stream that filled one is busy and waits for the next, so that it takes nothing from those that are
not.
"""

from collections.abc import Mapping

BUSY_SHARE = 16
"""A stream is busy that has more of an object than one of so many parts of an inline flush."""
BUSY_SECONDS = 2.0
"""And for so long after it: some flushes, of which chance may leave a busy stream out."""


class Early:
    """Decides it; ``interval`` is the least time between two objects, 0 where they are free."""

    def __init__(self, interval: float, inline_bytes: int) -> None:
        self._interval = interval
        self._inline_bytes = inline_bytes
        self._busy: dict[int, float] = {}
        """Until when a stream is busy."""
        self.under_way = False
        """Whether a flush is that waited for nothing."""
        self._until = 0.0
        self._spent = 0
        """How much went early in the interval that ends then."""

    def is_busy(self, stream: int, now: float) -> bool:
        return now < self._busy.get(stream, 0.0)

    def filled(self, sizes: Mapping[int, int], now: float) -> None:
        """An object is made of so many bytes by stream; one that was worth it makes them busy."""
        if self._interval and sum(sizes.values()) > self._inline_bytes:
            least = self._inline_bytes // BUSY_SHARE
            busy = {stream: until for stream, until in self._busy.items() if until > now}
            busy |= {stream: now + BUSY_SECONDS for stream, size in sizes.items() if size > least}
            self._busy = busy

    def has_room(self, size: int, now: float) -> bool:
        """Whether so many bytes may go as soon as none are under way."""
        spent = self._spent if now < self._until else 0
        return self._interval > 0 and 0 < size <= self._inline_bytes - spent

    def begins(self, size: int, now: float) -> None:
        if now >= self._until:
            self._until = now + self._interval
            self._spent = 0
        self._spent += size
        self.under_way = True

    def ended(self) -> None:
        self.under_way = False
