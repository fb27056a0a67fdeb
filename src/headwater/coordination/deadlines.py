"""Many deadlines of which few ever fire.

A heartbeat moves its member's deadline and nothing else: the heap keeps the earlier alarm, which
finds out when it rings that there is more time. So a heartbeat costs the same in a group of ten
thousand as in a group of one.
"""

import heapq


class Deadlines:
    """Deadlines by key, on the monotonic clock."""

    __slots__ = ("_alarms", "_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[str, float] = {}
        self._alarms: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, key: str, deadline: float) -> None:
        """In place of an earlier deadline of that key."""
        self._deadlines[key] = deadline
        alarm = self._alarms.get(key)
        if alarm is None or deadline < alarm:
            self._alarms[key] = deadline
            heapq.heappush(self._heap, (deadline, key))
            self._forget_stale()

    def cancel(self, key: str) -> None:
        if self._deadlines.pop(key, None) is not None and not self._deadlines:
            self.clear()

    def clear(self) -> None:
        """Cancel all."""
        self._deadlines.clear()
        self._alarms.clear()
        self._heap.clear()

    def next(self) -> float | None:
        """No deadline is before this time; None where there is none."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> str | None:
        """The key of a deadline that has passed, earliest first; it is cancelled by this."""
        while self._heap and self._heap[0][0] <= now:
            alarm, key = heapq.heappop(self._heap)
            if self._alarms.get(key) != alarm:
                continue
            del self._alarms[key]
            deadline = self._deadlines.get(key)
            if deadline is None:
                continue
            if deadline == alarm:
                self.cancel(key)
                return key
            self._alarms[key] = deadline
            heapq.heappush(self._heap, (deadline, key))
        return None

    def _forget_stale(self) -> None:
        # Alarms of members that left lie until their time comes; a group that members keep
        # joining and leaving would gather them.
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._alarms = dict(self._deadlines)
            self._heap = [(deadline, key) for key, deadline in self._deadlines.items()]
            heapq.heapify(self._heap)
