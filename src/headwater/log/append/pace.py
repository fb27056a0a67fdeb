"""How far apart flushes are where PUTs are paid for."""

PATIENCE = 1.2
"""For the sake of merges a producer waits about so many intervals at most, its flush included."""
LIGHT = 0.125
"""A flush of no more than so much of a merge belongs to a light load."""
SHARE = 1.25
"""It pays so many times its part beforehand: merges are seldom as large as they may be."""
MOST = 25
"""So many merges are paid for beforehand or later, and no more."""
SMOOTHED = 8
"""Over about so many flushes their time is smoothed."""


class Pace:
    """One PUT in an interval, those of merges too.

    A merge's PUT takes the place of a flush, for which others come a little later each. Merges
    come many at once, long after the flushes whose records they join: so a flush pays its share of
    one beforehand, where the load is light: a heavy one's would be more than there is time for.
    What was not paid so those that follow make good, and time without flushes does. None of them
    comes later than ``PATIENCE`` allows: where the stores are slow there is no time for it, and
    merges are paid for beside the flushes.
    """

    def __init__(self, interval: float, merge_bytes: int) -> None:
        self._interval = interval
        self._merge_bytes = merge_bytes
        self._saved = 0.0
        """Seconds that flushes came later, less one interval for each merge."""
        self._took = 0.0
        self.not_before = 0.0
        """When the next flush may begin."""

    def begins(self, now: float, size: int) -> None:
        """A flush begins, which puts so many bytes into an object."""
        if self._saved < 0:
            self._saved = min(0.0, self._saved + max(0.0, now - self.not_before))
        part = size / self._merge_bytes
        share = 0.0
        if part <= LIGHT:
            share = min(SHARE * part * self._interval, MOST * self._interval - self._saved)
        room = max(0.0, (PATIENCE - 1) * self._interval - self._took)
        late = min(share + max(0.0, -self._saved), room)
        self._saved += late
        self.not_before = now + self._interval + late

    def ended(self, seconds: float) -> None:
        """An object's flush took so long."""
        self._took += (seconds - self._took) / SMOOTHED

    def merged(self) -> None:
        """A merge wrote an object."""
        self._saved = max(self._saved - self._interval, -MOST * self._interval)
