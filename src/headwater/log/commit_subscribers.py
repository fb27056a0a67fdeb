"""The parts of the engine that are informed of each own commit.

The writer calls its subscribers one after another, in the order of ``assembly``, and answers the
producers after that. So their records are readable when they get the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.log.formats.metadata_values import IndexEntry, StreamCommit
from headwater.log.formats.wal_object import Chunk
from headwater.log.read.streams import Streams


@dataclass(frozen=True, slots=True)
class CommittedChunk:
    """One stream's part of a commit: the chunk, and the outcome."""

    chunk: Chunk
    commit: StreamCommit
    entry: IndexEntry | None
    """Without inline data; None if nothing was appended."""


class CommitSubscriber(Protocol):
    """Is informed of this broker's own commits."""

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """One transaction of a flush was committed."""
        ...


class StreamUpdates:
    """Makes this broker's own records visible in its streams, and wakes their long polls."""

    def __init__(self, streams: Streams, window_entries: int) -> None:
        self._streams = streams
        self._window_entries = window_entries

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        for each in landed:
            state = self._streams[each.commit.stream]
            if each.entry is not None:
                state.committed(
                    each.entry, self._window_entries, last_stable=each.commit.last_stable
                )
            # Another broker may have committed the duplicates, and its change is not here yet.
            state.advance(each.commit.end, each.commit.last_stable)
