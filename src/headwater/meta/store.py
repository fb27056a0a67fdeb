"""The metadata store: a small ordered key-value store with atomic transactions.

Every backend passes the one conformance suite (``tests/support/meta/conformance.py``). Keys are
readable paths in ASCII and sort by their bytes; values are bytes.

What a caller may rely on:

- ``transact`` is atomic and serialisable within a domain: ``fn`` sees the committed values of
  ``keys`` and its writes land together, or not at all.
- It ends in one of three ways: it returns (*done*), ``fn``'s own exception propagates and
  nothing was written (*refused*), or ``UnknownOutcome`` is raised: the answer was lost and the
  caller must read something that only this transaction would have written.
  ``StoreUnavailable`` means that nothing was written.
- ``revision`` grows with every transaction that writes; a change is visible to ``get`` and
  ``scan`` no later than the transaction's return, on every process.
- A watch delivers every change after its start revision, in revision order, or raises
  ``WatchTrimmed``. Backends may fold several changes of one key into its last one; callers
  that need each of them number them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Entry(Struct, frozen=True):
    """A key's committed value and the revision that wrote it."""

    key: str
    value: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class Scan:
    """Entries in key order, and the store's revision when they were read."""

    entries: list[Entry]
    revision: int


class Change(Struct, frozen=True):
    """One key's change as a watch delivers it; ``value`` is None where it was deleted."""

    key: str
    value: bytes | None
    revision: int


@dataclass(slots=True)
class Writes:
    """What a transaction writes; a range delete comes before the puts."""

    puts: dict[str, bytes] = field(default_factory=dict)
    ephemeral: dict[str, str] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)
    range_deletes: list[tuple[str, str]] = field(default_factory=list)

    def put(self, key: str, value: bytes, *, session: str | None = None) -> None:
        """Set a key; with ``session`` the key goes when that session ends."""
        self.puts[key] = value
        if session is not None:
            self.ephemeral[key] = session

    def delete(self, key: str) -> None:
        """Delete a key; an absent one is no error."""
        self.deletes.append(key)

    def delete_range(self, start: str, end: str) -> None:
        """Delete every key with ``start <= key < end``."""
        self.range_deletes.append((start, end))

    def __bool__(self) -> bool:
        return bool(self.puts or self.deletes or self.range_deletes)


Values = Mapping[str, Entry | None]
"""What a transaction's function sees: each key asked for, None where it is absent."""

Decide = Callable[[Values], tuple[Writes, T]]
"""A transaction's pure function; it may run several times, and on another thread."""


@dataclass(frozen=True, slots=True)
class Committed(Generic[T]):
    """A transaction's end: its revision (the current one if it wrote nothing) and result."""

    revision: int
    result: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one transaction may hold; None means no limit worth counting.

    ``operations`` bounds its keys, and its writes; a put inside of a range that the same
    transaction deletes counts twice.
    """

    operations: int | None = None
    value_bytes: int | None = None
    range_keys: int | None = None
    """How many keys the ranges that it deletes should hold, where each takes a write of its own:
    more are possible, and hold all others up for longer."""
    inline_bytes: int = 256 * 2**20
    """How many bytes of records the whole store may hold before they are moved to objects."""


class Session(Protocol):
    """A lease on ephemeral keys, renewed in the background until closed or lost."""

    @property
    def id(self) -> str: ...

    @property
    def lost(self) -> bool:
        """True once the store has ended the session; it does not come back."""
        ...

    @property
    def remaining(self) -> float:
        """Seconds for which the session certainly lives and owns its keys.

        Counted from the start of the last renewal that succeeded, with the time in which the
        machine was suspended; not positive once the session is lost.
        """
        ...

    async def wait_lost(self) -> None:
        """Return when the session is lost."""
        ...

    async def close(self) -> None:
        """End the session now; its ephemeral keys go with it."""
        ...


class MetadataStore(Protocol):
    """The interface of every backend."""

    @property
    def limits(self) -> Limits: ...

    async def get(self, key: str) -> Entry | None:
        """The committed value, or None."""
        ...

    async def scan(
        self, start: str, end: str, *, limit: int | None = None, reverse: bool = False
    ) -> Scan:
        """Entries with ``start <= key < end`` in key order, or the reverse of it.

        No key has a NUL character; a bound may, so that a key with one added is right behind it.
        """
        ...

    def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        """The entries of a range as they were at one moment, up to ``size`` of them at a time.

        Memory is bounded by a page. There is one page at least, all have the same revision, and
        that is no later than the moment. Raises ``StoreUnavailable`` if the store forgets that
        moment before the end.
        """
        ...

    async def transact(self, domain: int, keys: Sequence[str], decide: Decide[T]) -> Committed[T]:
        """Run ``decide`` over ``keys`` and commit what it writes, atomically."""
        ...

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[Change]]:
        """Changes under ``prefix`` with a revision above ``after``, in order, for ever."""
        ...

    async def session(self, ttl: float) -> Session:
        """Open a session that ends ``ttl`` seconds after its last renewal."""
        ...

    async def close(self) -> None: ...


def prefix_end(prefix: str) -> str:
    """The smallest key above every key that starts with ``prefix`` (which is not empty)."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
