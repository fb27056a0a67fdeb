"""What producers sent and is not committed yet, gathered by stream."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.engine import Appended
from headwater.wire.batch import Batch


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
    cheap: dict[int, int] = field(default_factory=dict)
    """The streams that never travel inside a metadata transaction, and their bytes."""
    size: int = 0
    count: int = 0
    added: int = 0
    """Appends that it ever had; ``count`` are those that it has."""
    expiry: asyncio.TimerHandle | None = None

    def add(
        self,
        stream: int,
        batches: Sequence[Batch],
        size: int,
        done: asyncio.Future[Appended],
        *,
        cheap: bool,
    ) -> None:
        if stream in self.batches:
            self.batches[stream].extend(batches)
            self.waiting[stream].append(Waiting(self.added, len(batches), done))
        else:
            self.batches[stream] = list(batches)
            self.waiting[stream] = [Waiting(self.added, len(batches), done)]
        # What is in one stream stays together, though its topic's choice changed meanwhile.
        if cheap or stream in self.cheap:
            self.cheap[stream] = self.cheap.get(stream, 0) + size
        self.size += size
        self.count += 1
        self.added += 1

    @property
    def low_size(self) -> int:
        """The bytes of the streams that may travel inside a metadata transaction."""
        return self.size - sum(self.cheap.values())

    def without_cheap(self) -> "Buffer":
        """Take the streams out that may travel inside a metadata transaction."""
        taken = Buffer()
        for stream in [stream for stream in self.batches if stream not in self.cheap]:
            taken.batches[stream] = self.batches.pop(stream)
            taken.waiting[stream] = self.waiting.pop(stream)
            taken.count += len(taken.waiting[stream])
        taken.size = self.low_size
        self.size -= taken.size
        self.count -= taken.count
        return taken
