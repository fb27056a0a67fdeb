"""What a landed commit is told to: each part of the engine that keeps track of what was written.

The writer tells its subscribers one after another, in the order in which it was given them
(``assembly``), and answers producers after that: their records are readable by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.log.formats.metadata_values import IndexEntry, StreamCommit
from headwater.log.formats.wal_object import Chunk
from headwater.log.read.streams import Streams


@dataclass(frozen=True, slots=True)
class CommittedChunk:
    """One stream's share of a commit: what was written, and what became of it."""

    chunk: Chunk
    commit: StreamCommit
    entry: IndexEntry | None
    """Without inline data; None where nothing was appended."""


class CommitSubscriber(Protocol):
    """Is told of this broker's own commits."""

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """One transaction of a flush landed."""
        ...


class StreamUpdates:
    """Makes this broker's own records visible in its streams, and wakes who waits for them."""

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
            # Duplicates may have been committed by a broker whose changes are not here yet.
            state.advance(each.commit.end, each.commit.last_stable)
