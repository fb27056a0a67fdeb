"""When small entries are merged, and those of which streams together.

Every merge writes an object. Where objects are paid for, a round waits until it fills one, or
until it is overdue. Then it takes along those that have gathered half as much: streams that are
merged in step lie side by side in the objects of the flushes, and are read with one request each.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.log.settings import LogSettings

RECENT_RUNS = 4
"""How many merges' worth of small entries a stream gathers before it is looked at."""
TAKEN_ALONG_RUNS = 2
"""With so many a stream goes along with those that are ripe."""
OVERDUE_RUNS = 16
"""With so many a stream does not wait for others any longer."""
MANY_ENTRIES = 4096
"""So many entries are worth an object, however small they are."""


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

    def found(self, stream: int, entries: int, size: int) -> None:
        """So much of the stream is small, as its index shows."""
        self._small[stream] = _Small(entries, size)

    def taken(self, stream: int, entries: int, size: int) -> None:
        """So much of what was found is merged, or cannot be."""
        if (small := self._small.get(stream)) is not None:
            small.entries = max(0, small.entries - entries)
            small.size = max(0, small.size - size)

    def foreign(self) -> list[int]:
        """The ripe streams that another broker sees to; they begin to gather anew."""
        streams = [stream for stream in self._ripe(RECENT_RUNS) if not self._share(stream)]
        self.forget(streams)
        return streams

    def next(self) -> list[int]:
        """The streams to merge now, in order; they begin to gather anew."""
        ripe = self._own(RECENT_RUNS)
        if self._settings.flush_interval_ms:
            if not self._is_worth_an_object(ripe.values()):
                return []
            ripe = self._own(TAKEN_ALONG_RUNS)
        self.forget(ripe)
        return sorted(ripe)

    def _own(self, runs: int) -> dict[int, _Small]:
        """Of this broker's share."""
        ripe = self._ripe(runs)
        return {stream: small for stream, small in ripe.items() if self._share(stream)}

    def _ripe(self, runs: int) -> dict[int, _Small]:
        most = runs * self._settings.merge_fan_in
        return {stream: small for stream, small in self._small.items() if small.entries >= most}

    def _is_worth_an_object(self, ripe: Collection[_Small]) -> bool:
        most = max((small.entries for small in ripe), default=0)
        return (
            sum(small.size for small in ripe) >= self._settings.merge_bytes
            or most >= OVERDUE_RUNS * self._settings.merge_fan_in
            or sum(small.entries for small in ripe) >= MANY_ENTRIES
        )


class Counts(Protocol):
    """Is told what merging finds and takes, as ``MergeRounds`` is."""

    def found(self, stream: int, entries: int, size: int) -> None: ...

    def taken(self, stream: int, entries: int, size: int) -> None: ...


class _NoCounts:
    def found(self, stream: int, entries: int, size: int) -> None:
        pass

    def taken(self, stream: int, entries: int, size: int) -> None:
        pass


NO_COUNTS: Final = _NoCounts()
