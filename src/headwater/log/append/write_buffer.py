"""What producers sent and is not committed yet, gathered by stream."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.engine import Appended
from headwater.wire.batches.batch import Batch

APPEND_BYTES = 3 * 1024
"""About what an append takes in memory besides its records: its request, and whoever waits."""


@dataclass(slots=True)
class Waiting:
    """One append call: which of its buffer's it was, how many batches it added, and who waits."""

    number: int
    batches: int
    done: asyncio.Future[Appended]


@dataclass(slots=True)
class Buffer:
    """Batches that wait for the next flush, by stream."""

    batches: dict[int, list[Batch]] = field(default_factory=dict)
    waiting: dict[int, list[Waiting]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Each stream's bytes."""
    cheap: set[int] = field(default_factory=set)
    """The streams that do not travel inside a metadata transaction."""
    low_size: int = 0
    """The bytes of the others."""
    size: int = 0
    count: int = 0
    added: int = 0
    """Appends that it ever had; ``count`` are those that it has."""
    expiry: asyncio.TimerHandle | None = None

    @property
    def memory(self) -> int:
        """About how many bytes it holds."""
        return self.size + self.count * APPEND_BYTES

    def add(
        self,
        stream: int,
        batches: Sequence[Batch],
        size: int,
        done: asyncio.Future[Appended],
        *,
        cheap: bool,
    ) -> None:
        waiting = Waiting(self.added, len(batches), done)
        if stream in self.batches:
            self.batches[stream].extend(batches)
            self.waiting[stream].append(waiting)
            self.sizes[stream] += size
        else:
            self.batches[stream] = list(batches)
            self.waiting[stream] = [waiting]
            self.sizes[stream] = size
        # What is in one stream stays together, though it became cheap meanwhile.
        if stream not in self.cheap:
            self.low_size += size
            if cheap:
                self.cheap.add(stream)
                self.low_size -= self.sizes[stream]
        self.size += size
        self.count += 1
        self.added += 1

    def without_cheap(self) -> "Buffer":
        """Take the streams out that may travel inside a metadata transaction."""
        taken = Buffer(added=self.added)
        for stream in [stream for stream in self.batches if stream not in self.cheap]:
            taken.batches[stream] = self.batches.pop(stream)
            taken.waiting[stream] = self.waiting.pop(stream)
            taken.sizes[stream] = self.sizes.pop(stream)
            taken.count += len(taken.waiting[stream])
        taken.size = taken.low_size = self.low_size
        self.low_size = 0
        self.size -= taken.size
        self.count -= taken.count
        return taken
