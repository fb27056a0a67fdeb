"""The Oxia keys of a store, and the encoding of their values.

====================== ==========================================================
``<prefix>:head``      the last commit: its number, its writes, and the session of each
                       ephemeral key
``<prefix>:log:<n>``   the changes of commit n, for watches; written when it is applied
``<prefix>:k:<key>``   the value of a key, or a tombstone, with the number of its commit
``<prefix>:session:…`` ephemeral: exists while a session lives
====================== ==========================================================

Oxia sorts keys by their number of slashes first. Slashes are therefore escaped: ``.`` becomes
``.-`` and ``/`` becomes ``.:``, which keeps the order of keys by their bytes.
"""

import struct
from dataclasses import dataclass

import msgspec

from headwater.meta.feed import Item
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.store import Entry
from headwater.meta.values import Value, decode

ABSENT = -1
"""The version of a key that does not exist in Oxia."""

_HEADER = struct.Struct(">BQ")
_DELETED, _LIVE = 0, 1


class HeadWrite(msgspec.Struct, array_like=True, frozen=True):
    """One write of a commit; it replaces exactly this version. A value of None deletes."""

    key: str
    version: int
    value: bytes | None


class Head(Value):
    """The last commit, complete: any process that finds that it is not applied applies it."""

    number: int = 0
    writes: list[HeadWrite] = msgspec.field(default_factory=list)
    purged: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Tombstones to delete, with their versions; a commit has either these or writes."""
    owners: dict[str, str] = msgspec.field(default_factory=dict)
    """The session of every ephemeral key after this commit."""

    @property
    def changes(self) -> list[Item]:
        return [(write.key, write.value) for write in self.writes]


class CommitLogEntry(Value):
    """The changes of one commit."""

    changes: list[tuple[str, bytes | None]] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The state of a key in Oxia; ``entry`` is None if the key is absent or deleted."""

    version: int
    entry: Entry | None
    number: int
    """The commit that wrote the value or the tombstone; 0 without either."""


class OxiaKeyspace:
    """The Oxia keys of one store."""

    def __init__(self, prefix: str) -> None:
        self._root = escape(prefix)
        self.partition = prefix
        self.head = f"{self._root}:head"
        self.logs = f"{self._root}:log:"
        self.sessions = f"{self._root}:session:"
        self._keys = f"{self._root}:k:"

    def path(self, key: str) -> str:
        return self._keys + escape(key)

    def log(self, number: int) -> str:
        return f"{self.logs}{number:020d}"

    @property
    def last_log(self) -> str:
        """A bound above every key of the commit log."""
        return f"{self.logs}~"

    def log_number(self, path: str) -> int:
        """The commit number of a key of the commit log; 0 for other keys."""
        return int(path.removeprefix(self.logs)) if path.startswith(self.logs) else 0

    def session(self, name: str) -> str:
        return f"{self.sessions}{name}"

    def head_of(self, found: pb.GetResponse) -> tuple[Head, int]:
        """Decode the answer to a read of the head: the head and its version."""
        if found.status == pb.KEY_NOT_FOUND:
            return Head(), ABSENT
        return decode(Head, found.value), found.version.version_id

    def record(self, key: str, found: pb.GetResponse) -> StoredKey:
        """Decode the answer to a read of a key."""
        if found.status == pb.KEY_NOT_FOUND:
            return StoredKey(ABSENT, None, 0)
        kind, number = _HEADER.unpack_from(found.value)
        entry = Entry(key, found.value[_HEADER.size :], number) if kind == _LIVE else None
        return StoredKey(found.version.version_id, entry, number)

    def name(self, path: str) -> str:
        return unescape(path.removeprefix(self._keys))


def encode_stored(number: int, value: bytes | None) -> bytes:
    """Encode a value, or a tombstone for None, with the number of its commit."""
    if value is None:
        return _HEADER.pack(_DELETED, number)
    return _HEADER.pack(_LIVE, number) + value


def escape(key: str) -> str:
    """A key without slashes that sorts like the original.

    >>> escape("topics/orders.v1")
    'topics.:orders.-v1'
    >>> keys = ["a", "a-", "a.", "a.b", "a/", "a/b", "a0", "a:"]
    >>> sorted(keys) == sorted(keys, key=escape)
    True
    """
    return key.replace(".", ".-").replace("/", ".:")


def unescape(text: str) -> str:
    """The original of an escaped key.

    >>> unescape("topics.:orders.-v1")
    'topics/orders.v1'
    """
    return text.replace(".:", "/").replace(".-", ".")
