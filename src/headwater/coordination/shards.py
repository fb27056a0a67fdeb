"""Shards: the parts that one kind of state is divided into, and what a broker holds of them.

A shard's entries belong to the broker that has the shard's lease. Every kind of state has shards
of its own, with their own leases: a ``ShardKind`` says how many and where.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from zlib import crc32

from headwater.errors import KafkaError
from headwater.meta.store import Session


class ShardEntry(Protocol):
    """One named thing of a held shard, such as a group, as its machine in memory."""

    @property
    def name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Nothing is lost if the entry is dropped from memory."""
        ...

    def refuse(self, error: KafkaError) -> None:
        """Answer every request that waits for the entry with the error."""
        ...


E = TypeVar("E", bound=ShardEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKind(Generic[E]):
    """One kind of state that is divided into shards.

    Leases are ephemeral keys: snapshots of the store leave out what is below ``lease_prefix``.
    """

    noun: str
    """What an entry is called in messages, in the singular."""
    lease_prefix: str
    """Below it are the leases of this kind's shards and no other keys."""
    count: int
    """How many shards there are; all brokers have to agree."""
    make: Callable[["Shard[E]", str], E]
    """Makes a blank entry of that name."""

    def shard_of(self, name: str) -> int:
        """The number of the shard that an entry of that name is in."""
        return crc32(name.encode()) % self.count

    def lease_key(self, shard: int) -> str:
        """The key whose value says which broker holds the shard."""
        return f"{self.lease_prefix}{shard:04d}"

    def shard_of_lease(self, key: str) -> int:
        """The number of the shard that a lease's key names."""
        return int(key.removeprefix(self.lease_prefix))


Waiting = tuple["asyncio.Future[Any]", Any]
"""A request that waits, and the answer that it gets once a write is durable."""


@dataclass(slots=True, eq=False)
class Write:
    """Changes of one shard that become durable together, and who waits for that.

    ``ranges`` are deleted before ``changes`` are made; None in ``changes`` deletes.
    """

    shard: "Shard[Any]"
    changes: dict[str, bytes | None]
    ranges: tuple[tuple[str, str], ...] = ()
    waiting: list[Waiting] = field(default_factory=list)
    torn_mark: str | None = None
    """A key that is in the store as long as only some of the changes are, if they have to be
    written in several transactions."""
    done: bool = False
    size: int = 0
    """About how many bytes it has; the writer weighs it."""

    def succeed(self) -> None:
        self.done = True
        for future, answer in self.waiting:
            if not future.done():
                future.set_result(answer)

    def fail(self, error: KafkaError) -> None:
        self.done = True
        for future, _ in self.waiting:
            if not future.done():
                future.set_exception(again(error))


def again(error: KafkaError) -> KafkaError:
    """The same error for another request: one that is raised twice gathers tracebacks."""
    return type(error)(*error.args)


class Shard(Generic[E]):
    """A shard that this broker holds, from the moment that its entries are loaded.

    ``lease`` is what its key in the store has to hold, ``revision`` when it was written;
    ``leases`` are all that it may hold by writes whose answer was lost or is under way. A
    shard that was left is never used again: if its lease is taken again, that is another one.
    """

    __slots__ = (
        "entries", "kind", "lease", "lease_key", "leases", "left", "number", "reloading",
        "revision", "session", "written",
    )  # fmt: skip

    def __init__(
        self, kind: ShardKind[E], number: int, lease: bytes, revision: int, session: Session
    ) -> None:
        self.kind = kind
        self.number = number
        self.lease_key = kind.lease_key(number)
        self.lease = lease
        self.leases = {lease}
        self.revision = revision
        self.written = revision
        """Of this broker's last write: what is read from before that is out of date."""
        self.session = session
        self.entries: dict[str, E] = {}
        self.reloading: set[str] = set()
        """Entries that are read again from the store, and not in ``entries`` until they are."""
        self.left = False

    def entry(self, name: str) -> E:
        """The entry of that name, made where there is none."""
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = self.kind.make(self, name)
        return entry

    def forget(self, entry: E) -> None:
        if self.entries.get(entry.name) is entry:  # another of that name may have come since
            del self.entries[entry.name]

    def forget_if_empty(self, entry: E) -> None:
        if entry.is_empty:
            self.forget(entry)

    def refuse(self, error: KafkaError) -> None:
        """Answer every request that waits for an entry with the error."""
        for entry in self.entries.values():
            entry.refuse(error)

    def leave(self, error: KafkaError) -> None:
        """Stop for good: every request that waits for an entry gets the error."""
        self.left = True
        self.refuse(error)
        self.entries.clear()
