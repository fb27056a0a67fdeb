"""The metadata store: a small ordered key-value store with atomic transactions.

Every backend passes the one conformance suite (``tests/support/meta/conformance.py``). Keys are
readable paths in ASCII and sort by their bytes; values are bytes.

What a caller may rely on:

- ``transact`` is atomic and serialisable within a domain: ``decide`` sees the committed values
  of ``keys``, and either all of its writes are committed or none of them.
- If ``transact`` returns, the transaction is committed. If ``decide`` raises, the exception
  propagates and nothing is written. ``StoreUnavailable`` also means that nothing was written.
- ``UnknownOutcome`` means that the answer to the commit was lost. The caller must read something
  that only this transaction would have written.
- ``revision`` grows with every transaction that writes. When ``transact`` returns, ``get`` and
  ``scan`` see its writes in every process.
- A watch delivers every change after its start revision, in revision order, or raises
  ``WatchTrimmed``. A backend may deliver only the last of several changes of one key; a caller
  that needs every change stores a number in the value.
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


class KeyChange(Struct, frozen=True):
    """One key's change as a watch delivers it; ``value`` is None if it was deleted."""

    key: str
    value: bytes | None
    revision: int


@dataclass(slots=True)
class Writes:
    """The writes of a transaction; its range deletes are applied before its puts."""

    puts: dict[str, bytes] = field(default_factory=dict)
    ephemeral: dict[str, str] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)
    range_deletes: list[tuple[str, str]] = field(default_factory=list)

    def put(self, key: str, value: bytes, *, session: str | None = None) -> None:
        """Set a key; with ``session`` the key is deleted when that session ends."""
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
"""The keys that a transaction reads, with their entries; None if a key is absent."""

Decide = Callable[[Values], tuple[Writes, T]]
"""A transaction's pure function; it may run several times, and on another thread."""


@dataclass(frozen=True, slots=True)
class CommitResult(Generic[T]):
    """A committed transaction: its revision (the current one if it wrote nothing) and result."""

    revision: int
    result: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest transaction that a store accepts; None means no practical limit.

    ``operations`` bounds the number of keys that a transaction reads, and the number of its
    writes. A put inside of a range that the same transaction deletes counts twice.
    """

    operations: int | None = None
    value_bytes: int | None = None
    range_keys: int | None = None
    """Advised maximum of keys in the ranges that a transaction deletes, for stores that delete
    them one by one: a larger transaction succeeds, but delays all others for longer."""
    inline_bytes: int = 256 * 2**20
    """Bytes of inline records that the whole store may hold before they are moved to objects."""


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
        """Seconds for which the store certainly keeps the session and its keys.

        Counted from the start of the last successful renewal, on a clock that does not stop while
        the machine is suspended; zero or negative once the session is lost.
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

        A key never contains a NUL character, but ``start`` and ``end`` may: a key with a NUL
        appended is the bound directly behind that key.
        """
        ...

    def scan_pages(self, start: str, end: str, *, size: int) -> AsyncGenerator[Scan, None]:
        """The entries of a range at one point in time, in pages of up to ``size`` entries.

        Only one page is in memory. There is at least one page. All pages carry the same revision,
        which is no later than that point in time. Raises ``StoreUnavailable`` if the store drops
        the old state before the last page is read.
        """
        ...

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        """Run ``decide`` over ``keys`` and commit what it writes, atomically."""
        ...

    def watch(self, prefix: str, after: int) -> AsyncIterator[list[KeyChange]]:
        """Changes under ``prefix`` with a revision above ``after``, in order, without end."""
        ...

    async def session(self, ttl: float) -> Session:
        """Open a session that ends ``ttl`` seconds after its last renewal."""
        ...

    async def close(self) -> None: ...


def prefix_end(prefix: str) -> str:
    """The smallest key above every key that starts with ``prefix`` (which is not empty)."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
