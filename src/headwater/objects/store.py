"""The object store: immutable objects under readable keys.

Every backend passes the one conformance suite (``tests/support/objects/conformance.py``).

What a caller may rely on:

- ``put`` is all or nothing and durable when it returns; a reader never sees half an object.
- ``put`` never replaces an object: keys are written once. A repeat of the same put (after a
  lost answer) is not an error.
- A failed ``put`` may still have written the object: keys are never used for other content.
- Where objects can grow, bytes that an append returned for are durable and never change.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    key: str
    size: int
    modified_ms: int


@dataclass(slots=True)
class Traffic:
    """Requests and bytes since start, by kind; a benchmark and ``status`` read it."""

    puts: int = 0
    gets: int = 0
    deletes: int = 0
    lists: int = 0
    retries: int = 0
    errors: int = 0
    bytes_written: int = 0
    bytes_read: int = 0


class GrowingObject(Protocol):
    """An object that one process adds to until it closes it.

    Appends may overlap. After one has failed nothing more is appended to this object.
    """

    @property
    def key(self) -> str: ...

    @property
    def size(self) -> int:
        """The bytes that were given to ``append`` so far."""
        ...

    async def append(self, parts: Sequence[Buffer]) -> int:
        """Add the concatenation of ``parts`` durably; returns where in the object it begins.

        Raises as ``put`` does.
        """
        ...

    async def close(self) -> None: ...


class ObjectStore(Protocol):
    """What most code gets: it can read and write objects, and not delete them."""

    @property
    def id(self) -> str:
        """The store's name in index entries: what kind of objects live where may differ."""
        ...

    @property
    def traffic(self) -> Traffic: ...

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Write the concatenation of ``parts`` as one object, durably.

        Raises ``StorageFull`` or ``StoreUnavailable``.
        """
        ...

    def grow(self, key: str) -> GrowingObject | None:
        """Begin an object that grows; None where this store's objects are written whole."""
        ...

    async def get(self, key: str) -> bytearray:
        """The whole object. Raises ``ObjectNotFound``."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        """Exactly ``length`` bytes from ``start``, in a buffer of the caller's own.

        Raises ``ObjectNotFound``; ``StoreUnavailable`` when the object is shorter.
        """
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Every object whose key starts with ``prefix``, in key order."""
        ...

    async def close(self) -> None: ...


class DeletableObjects(ObjectStore, Protocol):
    """The interface of every backend.

    Outside of this package only ``log.reclaimer`` calls ``delete``, and only what assembles a
    process names this type.
    """

    async def delete(self, key: str) -> None:
        """Delete an object; an absent one is no error."""
        ...
