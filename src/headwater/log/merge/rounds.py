"""When small entries are merged, and which streams are merged together.

Every merge writes an object, and streams that are merged together are read with one request for
each object of a flush (``plans``). So a broker merges in rounds. A round begins
``log.merge_age_ms`` after the last one, or as soon as the waiting entries would fill
``ROUND_OBJECTS`` objects. It takes every stream with at least ``log.merge_fan_in`` small entries,
which is the least that a merge joins.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.clock import Clock
from headwater.log.settings import LogSettings

ROUND_OBJECTS = 32
"""Waiting bytes, in objects of ``log.merge_bytes``, at which a round does not wait any longer."""


@dataclass(slots=True)
class _Small:
    """The small entries of one stream that are not merged yet."""

    entries: int = 0
    size: int = 0


class MergeRounds:
    """Counts the small entries that any broker commits.

    ``share`` says which streams this broker merges. If two brokers merged the same stream, each
    would write an object, and one of the two would be thrown away.
    """

    def __init__(self, settings: LogSettings, share: Callable[[int], bool], clock: Clock) -> None:
        self._settings = settings
        self._share = share
        self._clock = clock
        self._small: dict[int, _Small] = {}
        self._next_round_ms = 0

    def added(self, stream: int, length: int) -> None:
        """An entry of ``length`` bytes was committed; it counts if it is small."""
        if length >= self._settings.merge_small_bytes:
            return
        small = self._small.get(stream)
        if small is None:
            small = self._small[stream] = _Small()
        small.entries += 1
        small.size += length

    def forget(self, streams: Iterable[int]) -> None:
        """The streams were deleted, or their entries are being merged."""
        for stream in streams:
            self._small.pop(stream, None)

    def keep(self, streams: Iterable[int]) -> None:
        """The streams have more to merge: the next round takes them, and begins at once."""
        for stream in streams:
            small = self._small.setdefault(stream, _Small())
            small.entries = max(small.entries, self._settings.merge_fan_in)
            self._next_round_ms = 0

    def found(self, stream: int, entries: int, size: int) -> None:
        """A merge begins and has found this many small entries in the stream's index."""
        self._small[stream] = _Small(entries, size)

    def taken(self, stream: int, entries: int, size: int) -> None:
        """This many of the entries found are merged, or cannot be merged."""
        if (small := self._small.get(stream)) is not None:
            small.entries = max(0, small.entries - entries)
            small.size = max(0, small.size - size)

    def foreign(self) -> list[int]:
        """The streams that another broker should merge. Resets their counts."""
        streams = [stream for stream in self._mergeable() if not self._share(stream)]
        self.forget(streams)
        return streams

    def next(self) -> list[int]:
        """The streams of the next round, in order; empty if none is due. Resets their counts."""
        waiting = {
            stream: small for stream, small in self._mergeable().items() if self._share(stream)
        }
        size = sum(small.size for small in waiting.values())
        full = size >= ROUND_OBJECTS * self._settings.merge_bytes
        if not waiting or not (full or self._is_due()):
            return []
        self._next_round_ms = self._clock.now_ms() + self._settings.merge_age_ms
        self.forget(waiting)
        return sorted(waiting)

    def _mergeable(self) -> dict[int, _Small]:
        fan_in = self._settings.merge_fan_in
        return {stream: small for stream, small in self._small.items() if small.entries >= fan_in}

    def _is_due(self) -> bool:
        """Whether enough time has passed; it has if the clock was set back, too."""
        left_ms = self._next_round_ms - self._clock.now_ms()
        return not 0 < left_ms <= self._settings.merge_age_ms


class MergeCounts(Protocol):
    """Gets the numbers of small entries that a merge finds and takes, as ``MergeRounds`` does."""

    def found(self, stream: int, entries: int, size: int) -> None: ...

    def taken(self, stream: int, entries: int, size: int) -> None: ...


class _NoCounts:
    def found(self, stream: int, entries: int, size: int) -> None:
        pass

    def taken(self, stream: int, entries: int, size: int) -> None:
        pass


NO_COUNTS: Final = _NoCounts()
