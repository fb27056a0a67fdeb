"""A cache of the keys of this process's last commits, which saves the next commit a read.

After a commit is applied, this process knows the version of the head and of every key that it
wrote. No key changes while the head stays the same, and the next proposal compares the head. A
commit that starts from cached keys is therefore refused if they are out of date. The cache must
not be used by transactions that write nothing, because nothing compares the head for them.

The cache is used only between ``MIN_AGE_SECONDS`` and ``MAX_AGE_SECONDS`` after a commit. The lower
bound leaves other processes time to commit: without it, a process that never reads would always be
faster than the others. The upper bound is too short for an Oxia cluster to lose its data and reach
the same versions again. The cache is not used while other processes commit, because most commits
that start from it would be refused.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import Head, StoredKey
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.store import Entry

log = logging.getLogger(__name__)

MIN_AGE_SECONDS: Final = 0.02
"""About twice the duration of a commit."""
MAX_AGE_SECONDS: Final = 1.0
MAX_KEYS: Final = 4_096
MAX_BYTES: Final = 4 * 2**20


class OxiaCommitCache:
    """The keys under the last head, if this process wrote it and no other has committed since."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._version = 0
        self._records: dict[str, StoredKey] = {}
        """Ordered by last use, oldest first."""
        self._size = 0
        self._stored_at = 0.0
        self._proposed_number = 0
        self._applied_number = 0

    def note_proposed(self, head: Head) -> None:
        """This process has proposed the commit with this number."""
        self._proposed_number = head.number

    def store(
        self, before: HeadSnapshot, head: Head, version: int, applied: pb.WriteResponse
    ) -> None:
        """Remember the keys that a commit read and wrote.

        ``version`` is the version of the head; ``applied`` is the answer to the batch of puts.
        """
        if self._head is None or before.version != self._version:
            self._records, self._size = {}, 0
        *keys, logged = (put.status == pb.OK for put in applied.puts)
        if logged and not all(keys):
            log.error("A commit replaced unexpected key versions", extra={"commit": head.number})
        # The answer does not cover purged keys, nor puts that another process has applied.
        if head.purged or not logged or not all(keys) or self._applied_number > head.number:
            self._head = None
            return
        self._head, self._version = Head(number=head.number, owners=head.owners), version
        self._stored_at = asyncio.get_running_loop().time()
        for key, record in before.records.items():
            self._add(key, record)
        for write, put in zip(
            head.writes, applied.puts, strict=False
        ):  # the last put is the commit log's
            value = write.value
            entry = None if value is None else Entry(write.key, value, head.number)
            self._add(write.key, StoredKey(put.version.version_id, entry, head.number))
        while len(self._records) > MAX_KEYS or self._size > MAX_BYTES:
            self._drop(next(iter(self._records)))

    def _add(self, key: str, record: StoredKey) -> None:
        self._drop(key)
        self._records[key] = record
        self._size += _size(record)

    def _drop(self, key: str) -> None:
        if record := self._records.pop(key, None):
            self._size -= _size(record)

    def get(self, keys: Sequence[str]) -> HeadSnapshot | None:
        """A snapshot of the keys; None if one is not in the cache or the cache may not be used."""
        age = asyncio.get_running_loop().time() - self._stored_at
        known = self._records
        if self._head is None or not MIN_AGE_SECONDS <= age < MAX_AGE_SECONDS:
            return None
        if any(key not in known for key in keys):
            return None
        return HeadSnapshot(self._head, self._version, {key: known[key] for key in keys})

    def note_applied(self, number: int) -> None:
        """A commit with this number was applied, by this process or another."""
        self._applied_number = max(self._applied_number, number)
        if number > self._proposed_number:
            self._head = None


def _size(record: StoredKey) -> int:
    return 0 if record.entry is None else len(record.entry.value)
