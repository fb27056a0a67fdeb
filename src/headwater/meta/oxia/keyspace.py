"""Which keys of Oxia a store has, and what stands in them.

====================== ==========================================================
``<prefix>:head``      the last commit: its number, its writes, who owns which key
``<prefix>:log:<n>``   the changes of commit n, for watches; written as it is applied
``<prefix>:k:<key>``   a key's value, or the mark that it was deleted, with its commit
``<prefix>:session:…`` ephemeral: a session lives
====================== ==========================================================

Oxia sorts keys with slashes by their number first, so none of ours has one: ``.`` is written
``.-`` and ``/`` is written ``.:``, which keeps the order of keys by their bytes.
"""

import struct
from dataclasses import dataclass

import msgspec

from headwater.meta.feed import Item
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.store import Entry
from headwater.meta.values import Value, decode

ABSENT = -1
"""The version of a key that Oxia does not have."""

_HEADER = struct.Struct(">BQ")
_DELETED, _LIVE = 0, 1


class HeadWrite(msgspec.Struct, array_like=True, frozen=True):
    """One write of a commit, which replaces exactly this version; None deletes."""

    key: str
    version: int
    value: bytes | None


class Head(Value):
    """The last commit, whole: whoever finds that it was not applied applies it."""

    number: int = 0
    writes: list[HeadWrite] = msgspec.field(default_factory=list)
    purged: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """Marks of deleted keys that go, with their versions; a commit has these or writes."""
    owners: dict[str, str] = msgspec.field(default_factory=dict)
    """The session of every ephemeral key, as of this commit."""

    @property
    def changes(self) -> list[Item]:
        return [(write.key, write.value) for write in self.writes]


class CommitLogEntry(Value):
    """The changes of one commit."""

    changes: list[tuple[str, bytes | None]] = msgspec.field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as Oxia has it; ``entry`` is None where it is absent or deleted."""

    version: int
    entry: Entry | None
    number: int
    """The commit that wrote it, or its mark; 0 where Oxia has neither."""


class OxiaKeyspace:
    """The keys of one store."""

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
        """Above every key of the log."""
        return f"{self.logs}~"

    def log_number(self, path: str) -> int:
        """The commit that a key of the log is of; 0 where it is another key."""
        return int(path.removeprefix(self.logs)) if path.startswith(self.logs) else 0

    def session(self, name: str) -> str:
        return f"{self.sessions}{name}"

    def head_of(self, found: pb.GetResponse) -> tuple[Head, int]:
        """The head that was found, and its version; an empty store has none."""
        if found.status == pb.KEY_NOT_FOUND:
            return Head(), ABSENT
        return decode(Head, found.value), found.version.version_id

    def record(self, key: str, found: pb.GetResponse) -> StoredKey:
        """What a look at a key found."""
        if found.status == pb.KEY_NOT_FOUND:
            return StoredKey(ABSENT, None, 0)
        kind, number = _HEADER.unpack_from(found.value)
        entry = Entry(key, found.value[_HEADER.size :], number) if kind == _LIVE else None
        return StoredKey(found.version.version_id, entry, number)

    def name(self, path: str) -> str:
        return unescape(path.removeprefix(self._keys))


def encode_stored(number: int, value: bytes | None) -> bytes:
    """A value, or the mark of a deleted one, with its commit."""
    if value is None:
        return _HEADER.pack(_DELETED, number)
    return _HEADER.pack(_LIVE, number) + value


def escape(key: str) -> str:
    """A key without slashes that sorts as it does.

    >>> escape("topics/orders.v1")
    'topics.:orders.-v1'
    >>> keys = ["a", "a-", "a.", "a.b", "a/", "a/b", "a0", "a:"]
    >>> sorted(keys) == sorted(keys, key=escape)
    True
    """
    return key.replace(".", ".-").replace("/", ".:")


def unescape(text: str) -> str:
    """What ``escape`` was given.

    >>> unescape("topics.:orders.-v1")
    'topics/orders.v1'
    """
    return text.replace(".:", "/").replace(".-", ".")
