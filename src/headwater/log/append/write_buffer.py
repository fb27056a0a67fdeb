"""Appends that are not flushed yet, grouped by stream."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.engine import Appended
from headwater.wire.batches.batch import Batch

APPEND_BYTES = 3 * 1024
"""Approximate memory of one append besides its records: the request and its waiters."""


@dataclass(slots=True)
class PendingAppend:
    """One append call: its number in the buffer, how many batches it added, and its future."""

    number: int
    batches: int
    done: asyncio.Future[Appended]


@dataclass(slots=True)
class WriteBuffer:
    """The batches of the next flush, by stream."""

    batches: dict[int, list[Batch]] = field(default_factory=dict)
    pending: dict[int, list[PendingAppend]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes by stream."""
    objects_only: set[int] = field(default_factory=set)
    """Streams whose records must not be committed inline."""
    inline_eligible_bytes: int = 0
    """Bytes of all other streams."""
    size: int = 0
    count: int = 0
    """Appends in the buffer."""
    added: int = 0
    """Appends ever added. Greater than ``count`` after ``take_inline_eligible``."""
    expiry: asyncio.TimerHandle | None = None

    @property
    def memory(self) -> int:
        """Approximate memory of the buffer in bytes."""
        return self.size + self.count * APPEND_BYTES

    def add(
        self,
        stream: int,
        batches: Sequence[Batch],
        size: int,
        done: asyncio.Future[Appended],
        *,
        inline_eligible: bool,
    ) -> None:
        pending = PendingAppend(self.added, len(batches), done)
        if stream in self.batches:
            self.batches[stream].extend(batches)
            self.pending[stream].append(pending)
            self.sizes[stream] += size
        else:
            self.batches[stream] = list(batches)
            self.pending[stream] = [pending]
            self.sizes[stream] = size
        # The batches of one stream stay together, also if only its last append is not eligible.
        if stream not in self.objects_only:
            self.inline_eligible_bytes += size
            if not inline_eligible:
                self.objects_only.add(stream)
                self.inline_eligible_bytes -= self.sizes[stream]
        self.size += size
        self.count += 1
        self.added += 1

    def take_inline_eligible(self) -> "WriteBuffer":
        """Move the streams that may be committed inline into a separate buffer."""
        taken = WriteBuffer(added=self.added)
        for stream in [stream for stream in self.batches if stream not in self.objects_only]:
            taken.batches[stream] = self.batches.pop(stream)
            taken.pending[stream] = self.pending.pop(stream)
            taken.sizes[stream] = self.sizes.pop(stream)
            taken.count += len(taken.pending[stream])
        taken.size = taken.inline_eligible_bytes = self.inline_eligible_bytes
        self.inline_eligible_bytes = 0
        self.size -= taken.size
        self.count -= taken.count
        return taken
