"""Writes to shards, and how they are combined into transactions and split over several."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from headwater.coordination.shards import Shard
from headwater.errors import KafkaError

T = TypeVar("T")

MAX_TRANSACTION_BYTES: Final = 1 << 20

Waiting = tuple["asyncio.Future[Any]", Any]
"""A waiting request, and its reply once a write is durable."""


def copy_of(error: KafkaError) -> KafkaError:
    """The same error for another request: raising one object twice grows its traceback."""
    return type(error)(*error.args)


@dataclass(slots=True, eq=False)
class ShardWrite:
    """Changes of one shard that become durable together, and the requests that wait for them.

    ``ranges`` are deleted before ``changes`` are made; None in ``changes`` deletes the key.
    """

    shard: Shard[Any]
    changes: dict[str, bytes | None]
    ranges: tuple[tuple[str, str], ...] = ()
    waiting: list[Waiting] = field(default_factory=list)
    torn_mark: str | None = None
    """If the changes need several transactions, this key exists from the first to the last."""
    done: bool = False
    size: int = 0
    """Bytes of the changes' keys and values; the writer sets it."""

    async def reply_when_done(self, reply: T) -> T:
        """Return ``reply`` once the changes are durable; raises the error if they failed.

        A write that is done already, durable or not, gives the reply at once: a failed write
        makes its shard resign, which the caller checks before it answers.
        """
        if self.done:
            return reply
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.waiting.append((future, reply))
        return await future

    def succeed(self) -> None:
        self.done = True
        for future, answer in self.waiting:
            if not future.done():
                future.set_result(answer)

    def fail(self, error: KafkaError) -> None:
        self.done = True
        for future, _ in self.waiting:
            if not future.done():
                future.set_exception(copy_of(error))


@dataclass(slots=True)
class WriteBatch:
    """The writes of one transaction, combined into one change per key."""

    writes: list[ShardWrite] = field(default_factory=list)
    changes: dict[str, bytes | None] = field(default_factory=dict)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    shards: dict[Shard[Any], set[bytes]] = field(default_factory=dict)
    """By shard: the lease values that the store may have, several if an answer was lost."""
    size: int = 0

    def add(self, write: ShardWrite) -> None:
        self.writes.append(write)
        self.shards.setdefault(write.shard, {write.shard.lease})
        for start, end in write.ranges:
            for key in [key for key in self.changes if start <= key < end]:
                del self.changes[key]
            self.ranges.append((start, end))
        self.changes.update(write.changes)
        self.size += write.size

    def operations_with(self, write: ShardWrite) -> int:
        """Upper bound on the operations with one more write, a new lease for each shard included.

        A store may have to delete a range around each key that is written in it.
        """
        changes = len(self.changes) + len(write.changes)
        ranges = len(self.ranges) + len(write.ranges)
        return (2 * changes if ranges else changes) + ranges + len(self.shards) + 1


def oversized_changes(changes: dict[str, bytes | None], limit: int) -> dict[str, bytes | None]:
    """The changes whose values have more than ``limit`` bytes."""
    return {key: value for key, value in changes.items() if len(value or b"") > limit}


def split_changes(
    changes: dict[str, bytes | None], max_changes: int
) -> list[dict[str, bytes | None]]:
    """The changes in their order, one part per transaction; an empty dict gives one empty part."""
    parts: list[dict[str, bytes | None]] = [{}]
    part_bytes = 0
    for key, value in changes.items():
        change_bytes = len(key) + len(value or b"")
        full = len(parts[-1]) >= max_changes or part_bytes + change_bytes > MAX_TRANSACTION_BYTES
        if parts[-1] and full:
            parts.append({})
            part_bytes = 0
        parts[-1][key] = value
        part_bytes += change_bytes
    return parts


def size_of(changes: dict[str, bytes | None]) -> int:
    """Bytes of all keys and values."""
    return sum(len(key) + len(value or b"") for key, value in changes.items())
