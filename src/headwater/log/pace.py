"""How far apart flushes are where PUTs are paid for."""

PATIENCE = 1.2
"""For the sake of merges a producer waits about so many intervals at most, its flush included."""
OWED = 1.4
"""So many intervals a merge's PUT takes: more than one, so that what is not yet made good does not
show."""
MOST_OWED = 25
"""So many intervals are made good later, and no more."""
SMOOTHED = 8
"""Over about so many flushes their time is smoothed."""


class Pace:
    """One PUT in an interval, those of merges too.

    A merge's PUT takes the place of a flush: those that follow come a little later each, until the
    time that it cost is made good. They come no later than ``PATIENCE`` allows: where the
    stores are slow, or the load is high, merges are paid for beside the flushes.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._owed = 0.0
        self._took = 0.0
        self.not_before = 0.0
        """When the next flush may begin."""

    def begins(self, now: float) -> None:
        """A flush begins."""
        self._owed = max(0.0, self._owed - max(0.0, now - self.not_before))
        room = max(0.0, (PATIENCE - 1) * self._interval - self._took)
        late = min(self._owed, room)
        self._owed -= late
        self.not_before = now + self._interval + late

    def ended(self, seconds: float) -> None:
        """An object's flush took so long."""
        self._took += (seconds - self._took) / SMOOTHED

    def merged(self) -> None:
        """A merge wrote an object."""
        self._owed = min(self._owed + OWED * self._interval, MOST_OWED * self._interval)
