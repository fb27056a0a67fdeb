"""Shards: the parts that one kind of state is divided into, and their entries in memory.

The broker that holds a shard's lease owns the shard's entries. Each kind of state has its own
shards and leases: a ``ShardKind`` says how many there are and where the leases are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from zlib import crc32

from headwater.errors import KafkaError
from headwater.meta.store import Session


class ShardEntry(Protocol):
    """A named part of an owned shard in this broker's memory, such as a group."""

    @property
    def name(self) -> str: ...

    @property
    def is_empty(self) -> bool:
        """Whether the entry can be dropped from memory without losing anything."""
        ...

    def refuse(self, error: KafkaError) -> None:
        """Fail every request that waits for the entry."""
        ...


E = TypeVar("E", bound=ShardEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardKind(Generic[E]):
    """One kind of state that is divided into shards.

    Leases are ephemeral: ``lease_prefix`` has to be among the prefixes that snapshots of the
    metadata store leave out.
    """

    noun: str
    """An entry's name in messages, in the singular."""
    lease_prefix: str
    """The prefix of the leases of this kind's shards, and of no other keys."""
    count: int
    """Number of shards; all brokers have to agree on it."""
    make: Callable[["Shard[E]", str], E]
    """Makes an empty entry with a name."""

    def shard_of(self, name: str) -> int:
        """The number of the shard that an entry of that name is in."""
        return crc32(name.encode()) % self.count

    def lease_key(self, shard: int) -> str:
        """The key whose value says which broker holds the shard."""
        return f"{self.lease_prefix}{shard:04d}"

    def shard_of_lease(self, key: str) -> int:
        """The number of the shard that a lease's key names."""
        return int(key.removeprefix(self.lease_prefix))


class Shard(Generic[E]):
    """A shard whose lease this broker took, with its entries in memory.

    The store has to hold ``lease`` under ``lease_key``, written at ``lease_revision``. ``leases``
    are all values that it may hold because of writes that are running or whose answer was lost.
    A shard that resigned is never used again: taking the lease again makes another ``Shard``.
    """

    __slots__ = (
        "entries",
        "kind",
        "lease",
        "lease_key",
        "lease_revision",
        "leases",
        "number",
        "reloading",
        "resigned",
        "session",
        "write_revision",
    )  # fmt: skip

    def __init__(
        self, kind: ShardKind[E], number: int, lease: bytes, revision: int, session: Session
    ) -> None:
        self.kind = kind
        self.number = number
        self.lease_key = kind.lease_key(number)
        self.lease = lease
        self.leases = {lease}
        self.lease_revision = revision
        self.write_revision = revision
        """Revision of this broker's last write; a read from before it is out of date."""
        self.session = session
        self.entries: dict[str, E] = {}
        self.reloading: set[str] = set()
        """Names of entries that are being read again; they are not in ``entries`` meanwhile."""
        self.resigned = False

    def entry(self, name: str) -> E:
        """The entry with that name; makes one if there is none."""
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = self.kind.make(self, name)
        return entry

    def forget(self, entry: E) -> None:
        if self.entries.get(entry.name) is entry:  # it may have been replaced since
            del self.entries[entry.name]

    def forget_if_empty(self, entry: E) -> None:
        if entry.is_empty:
            self.forget(entry)

    def refuse(self, error: KafkaError) -> None:
        """Fail every request that waits for an entry."""
        for entry in self.entries.values():
            entry.refuse(error)

    def resign(self, error: KafkaError) -> None:
        """Drop the entries for good; requests that wait for them fail with the error."""
        self.resigned = True
        self.refuse(error)
        self.entries.clear()
