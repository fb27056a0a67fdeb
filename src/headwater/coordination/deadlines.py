"""Many deadlines, most of them extended before they expire.

A heartbeat only changes the deadline of its member. The heap keeps the earlier alarm. When that
alarm is due, an alarm for the current deadline replaces it. A heartbeat therefore costs the same in
a group of ten thousand members as in a group of one.
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
        """Set the deadline of a key; replaces its earlier one."""
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
        """A time that is not after any deadline; None without deadlines."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> str | None:
        """Remove and return the key of the earliest deadline that has passed; None without one."""
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
        # Alarms of members that have left stay in the heap until they are due. Without this, they
        # would accumulate in a group whose members join and leave all the time.
        if len(self._heap) > 2 * len(self._deadlines) + 64:
            self._alarms = dict(self._deadlines)
            self._heap = [(deadline, key) for key, deadline in self._deadlines.items()]
            heapq.heapify(self._heap)
