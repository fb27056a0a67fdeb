"""The object store: immutable objects under readable keys.

Every backend passes the one conformance suite (``tests/support/objects/conformance.py``).

What a caller may rely on:

- ``put`` is atomic, and durable when it returns; a reader never sees a part of an object.
- ``put`` never replaces an object: each key is written once. Repeating the same put, after a lost
  answer, is no error.
- A failed ``put`` may still have written the object, so its key must not be used for other content.
- If objects can grow: when an append has returned, its bytes are durable and never change.
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
    """Requests and bytes since the process started, for metrics and ``headwater status``."""

    puts: int = 0
    gets: int = 0
    deletes: int = 0
    lists: int = 0
    retries: int = 0
    errors: int = 0
    bytes_written: int = 0
    bytes_read: int = 0


class GrowingObject(Protocol):
    """An object to which one process appends until it closes it.

    Appends may run concurrently. After a failed append, all later ones fail.
    """

    @property
    def key(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes passed to ``append`` so far."""
        ...

    async def append(self, parts: Sequence[Buffer]) -> int:
        """Append the concatenation of ``parts`` durably; returns its position in the object.

        Raises as ``put`` does.
        """
        ...

    async def close(self) -> None: ...


class ObjectStore(Protocol):
    """An object store without ``delete``: the type that most code gets."""

    @property
    def id(self) -> str:
        """The store's name in index entries, which may refer to several stores."""
        ...

    @property
    def traffic(self) -> Traffic: ...

    async def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Write the concatenation of ``parts`` as one object, durably.

        Raises ``StorageFull`` or ``StoreUnavailable``.
        """
        ...

    def grow(self, key: str) -> GrowingObject | None:
        """Start an object that grows; None if this store can only write whole objects."""
        ...

    async def get(self, key: str) -> bytearray:
        """The whole object. Raises ``ObjectNotFound``."""
        ...

    async def get_range(self, key: str, start: int, length: int) -> bytearray:
        """Exactly ``length`` bytes from ``start``, in a new buffer that the caller may change.

        Raises ``ObjectNotFound``; ``StoreUnavailable`` when the object is shorter.
        """
        ...

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """Every object whose key starts with ``prefix``, in key order."""
        ...

    async def close(self) -> None: ...


class DeletableObjects(ObjectStore, Protocol):
    """The interface of every backend.

    Outside of this package only ``log.reclaim`` calls ``delete``, and only the assembly of a
    process uses this type.
    """

    async def delete(self, key: str) -> None:
        """Delete an object; an absent one is no error."""
        ...
