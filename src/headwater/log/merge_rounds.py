"""When small entries are merged, and those of which streams together.

Every merge writes an object. Where objects are paid for, a round waits until it fills one, or
until it is overdue; and it takes no more than that, or half of what waits, so that merging is
spread over time.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from headwater.log.settings import LogSettings

RECENT_RUNS = 4
"""How many merges' worth of small entries a stream gathers before it is looked at."""
OVERDUE_RUNS = 16
"""With so many a stream does not wait for others any longer."""
MANY_ENTRIES = 4096
"""So many entries are worth an object, however small they are."""
BEHIND_OBJECTS = 128
"""Beyond so many objects of waiting entries the index would grow for ever."""


@dataclass(slots=True)
class _Small:
    """What a stream has gathered since it was merged."""

    entries: int = 0
    size: int = 0


class MergeRounds:
    """Counts the small entries that are committed, by whichever broker.

    ``share`` says which streams are this broker's to merge: two that merge the same write an object
    each, of which one is thrown away.
    """

    def __init__(self, settings: LogSettings, share: Callable[[int], bool]) -> None:
        self._settings = settings
        self._share = share
        self._small: dict[int, _Small] = {}
        self._last = 0
        """The last stream of the last round: the next one goes on behind it."""

    def added(self, stream: int, length: int) -> None:
        """An entry of so many bytes was committed; it counts if it is small."""
        if length >= self._settings.merge_small_bytes:
            return
        small = self._small.get(stream)
        if small is None:
            small = self._small[stream] = _Small()
        small.entries += 1
        small.size += length

    def forget(self, streams: Iterable[int]) -> None:
        """These are gone, or are merged as they are now."""
        for stream in streams:
            self._small.pop(stream, None)

    def keep(self, streams: Iterable[int]) -> None:
        """These have more to merge: they stay ripe."""
        for stream in streams:
            small = self._small.setdefault(stream, _Small())
            small.entries += RECENT_RUNS * self._settings.merge_fan_in

    def foreign(self) -> list[int]:
        """The ripe streams that another broker sees to; they begin to gather anew."""
        streams = [stream for stream in self._ripe() if not self._share(stream)]
        self.forget(streams)
        return streams

    @property
    def behind(self) -> bool:
        """Whether so much waits that merging must not wait for pauses any longer."""
        waiting = sum(small.size for stream, small in self._ripe().items() if self._share(stream))
        return waiting > BEHIND_OBJECTS * self._settings.merge_bytes

    def next(self) -> list[int]:
        """The streams to merge now, in order; they begin to gather anew."""
        ripe = {stream: small for stream, small in self._ripe().items() if self._share(stream)}
        if self._settings.flush_interval_ms:
            ripe = self._worth_an_object(ripe)
        self.forget(ripe)
        return sorted(ripe)

    def _ripe(self) -> dict[int, _Small]:
        most = RECENT_RUNS * self._settings.merge_fan_in
        return {stream: small for stream, small in self._small.items() if small.entries >= most}

    def _worth_an_object(self, ripe: dict[int, _Small]) -> dict[int, _Small]:
        size = sum(small.size for small in ripe.values())
        if size < self._settings.merge_bytes and not self._overdue(ripe.values()):
            return {}
        most = max(self._settings.merge_bytes, size // 2)
        taken: dict[int, _Small] = {}
        for stream in sorted(ripe, key=lambda stream: (stream <= self._last, stream)):
            most -= ripe[stream].size
            if most < 0 and taken:
                break
            taken[stream] = ripe[stream]
            self._last = stream
        return taken

    def _overdue(self, ripe: Collection[_Small]) -> bool:
        most = max((small.entries for small in ripe), default=0)
        return (
            most >= OVERDUE_RUNS * self._settings.merge_fan_in
            or sum(small.entries for small in ripe) >= MANY_ENTRIES
        )
