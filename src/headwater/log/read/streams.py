"""What a broker knows of each stream: bounds, recent index entries, long polls.

The caches may lag behind the metadata store, but never lead: they have only what was committed. So
an index entry in a window is always right, and any other entry is looked up in the store.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Sequence

from headwater.engine import Offsets
from headwater.log.formats.metadata_values import IndexEntry


class Window:
    """Consecutive index entries in offset order, without gaps."""

    __slots__ = ("_ends", "entries")

    def __init__(self, entries: Sequence[IndexEntry] = ()) -> None:
        self.entries = list(entries)
        self._ends = [entry.end for entry in self.entries]

    def find(self, offset: int) -> IndexEntry | None:
        """The entry that holds ``offset``."""
        number = bisect_right(self._ends, offset)
        if number == len(self.entries) or self.entries[number].start > offset:
            return None
        return self.entries[number]

    def append(self, entry: IndexEntry, keep: int) -> None:
        """Add the next entry, keeping at least the last ``keep``."""
        self.entries.append(entry)
        self._ends.append(entry.end)
        if len(self.entries) > 2 * keep:
            del self.entries[:-keep]
            del self._ends[:-keep]


class StreamState:
    """One stream as this broker knows it.

    Invariants: the bounds never go back, and the last stable offset is at most the high watermark.
    """

    __slots__ = (
        "cold", "high_watermark", "last_stable", "loaded", "log_start", "recent", "waiters",
    )  # fmt: skip

    def __init__(self) -> None:
        self.loaded = False
        """Whether the bounds were read from the store, and no change was missed since."""
        self.high_watermark = 0
        self.last_stable = 0
        self.log_start = 0
        self.recent = Window()
        """The newest entries, up to the high watermark."""
        self.cold = Window()
        """The entries of the last look-up of an older offset."""
        self.waiters: set[StreamWaiter] = set()

    @property
    def offsets(self) -> Offsets:
        # If records of an open transaction were deleted, readers need not wait for its end.
        stable = max(self.last_stable, min(self.log_start, self.high_watermark))
        return Offsets(self.log_start, self.high_watermark, stable)

    def find(self, offset: int) -> IndexEntry | None:
        return self.recent.find(offset) or self.cold.find(offset)

    def committed(self, entry: IndexEntry, keep: int, *, last_stable: int) -> None:
        """An entry was committed at the stream's end, here or on another broker.

        ``last_stable`` is the last stable offset after that commit.
        """
        if entry.end <= self.high_watermark:
            return
        if self.recent.entries and self.recent.entries[-1].end != entry.start:
            self.recent = Window()
        self.recent.append(entry, keep)
        self.advance(entry.end, last_stable)

    def advance(self, high_watermark: int, last_stable: int) -> None:
        """The store has, or had, at least these bounds."""
        if high_watermark <= self.high_watermark and last_stable <= self.last_stable:
            return
        self.high_watermark = max(high_watermark, self.high_watermark)
        self.last_stable = max(last_stable, self.last_stable)
        for waiter in self.waiters:
            waiter.wake()

    def rearranged(self, log_start: int) -> None:
        """The index below the end changed, so cached entries may be stale."""
        self.log_start = max(log_start, self.log_start)
        self.recent = Window()
        self.cold = Window()


class StreamWaiter:
    """Wakes a long poll; see ``headwater.engine.Waiter``."""

    def __init__(self, seen: Collection[tuple[StreamState, Offsets]]) -> None:
        self._states = [state for state, _ in seen]
        self._changed = asyncio.Event()
        for state, offsets in seen:
            state.waiters.add(self)
            if not state.loaded or state.offsets != offsets:
                self._changed.set()

    def wake(self) -> None:
        self._changed.set()

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def close(self) -> None:
        for state in self._states:
            state.waiters.discard(self)


class Streams:
    """Every stream that this broker has touched."""

    def __init__(self) -> None:
        self._states: dict[int, StreamState] = {}
        self.invalidations = 0
        """How often ``invalidate_bounds`` was called."""

    def __getitem__(self, stream: int) -> StreamState:
        state = self._states.get(stream)
        if state is None:
            state = self._states[stream] = StreamState()
        return state

    def get(self, stream: int) -> StreamState | None:
        return self._states.get(stream)

    def invalidate_bounds(self) -> None:
        """Changes were missed: read all bounds again before they are used."""
        self.invalidations += 1
        for state in self._states.values():
            state.loaded = False
            for waiter in state.waiters:
                waiter.wake()

    def drop(self, stream: int) -> None:
        """Forget a deleted stream, and wake its long polls."""
        state = self._states.pop(stream, None)
        if state is not None:
            for waiter in state.waiters:
                waiter.wake()
