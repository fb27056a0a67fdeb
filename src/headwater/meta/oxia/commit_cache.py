"""What a committer knows without a look, right after commits of its own.

Once a commit is proposed and applied, its head's version and those of all its keys are known. While
the head stands, no key changes, and the next proposal compares the head: a commit that begins with
what is remembered here either finds it true or is refused. So it may only be used for what ends in
a proposal; whoever writes nothing has to look.

It is used for a moment only, which is too short for an Oxia that lost its data and counts versions
anew; and not right away, because who never looks is faster than all others, and would leave them
no turn. Nor is it used beside the commits of others, which would refuse most of what begins with
it.
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

REST_SECONDS: Final = 0.02
"""What others have to commit something, about twice what that takes."""
KEPT_SECONDS: Final = 1.0
KEPT_KEYS: Final = 4_096
KEPT_BYTES: Final = 4 * 2**20


class OxiaCommitCache:
    """Keys as they are under the last head of this process, if nobody has committed since."""

    def __init__(self) -> None:
        self._head: Head | None = None
        self._version = 0
        self._records: dict[str, StoredKey] = {}
        """From the one that was written or read longest ago to the newest."""
        self._size = 0
        self._kept = 0.0
        self._own = 0
        self._heard = 0

    def proposed(self, head: Head) -> None:
        """The commit of that number is this process's."""
        self._own = head.number

    def keep(
        self, before: HeadSnapshot, head: Head, version: int, applied: pb.WriteResponse
    ) -> None:
        """Remember what was read before a commit and what the commit made of it.

        ``version`` is the head's, and ``applied`` the answer to the batch that applied it.
        """
        if self._head is None or before.version != self._version:
            self._records, self._size = {}, 0
        *keys, logged = (put.status == pb.OK for put in applied.puts)
        if logged and not all(keys):
            log.error("commit %d replaced other versions than it was to replace", head.number)
        # What a commit purged is not told of, and what another process applied is not known.
        if head.purged or not logged or not all(keys) or self._heard > head.number:
            self._head = None
            return
        self._head, self._version = Head(number=head.number, owners=head.owners), version
        self._kept = asyncio.get_running_loop().time()
        for key, record in before.records.items():
            self._add(key, record)
        for write, put in zip(head.writes, applied.puts, strict=False):  # the last is the log's
            value = write.value
            entry = None if value is None else Entry(write.key, value, head.number)
            self._add(write.key, StoredKey(put.version.version_id, entry, head.number))
        while len(self._records) > KEPT_KEYS or self._size > KEPT_BYTES:
            self._drop(next(iter(self._records)))

    def _add(self, key: str, record: StoredKey) -> None:
        self._drop(key)
        self._records[key] = record
        self._size += _size(record)

    def _drop(self, key: str) -> None:
        if record := self._records.pop(key, None):
            self._size -= _size(record)

    def recall(self, keys: Sequence[str]) -> HeadSnapshot | None:
        """The keys under the last head; None where one is not known."""
        age = asyncio.get_running_loop().time() - self._kept
        known = self._records
        if self._head is None or not REST_SECONDS <= age < KEPT_SECONDS:
            return None
        if any(key not in known for key in keys):
            return None
        return HeadSnapshot(self._head, self._version, {key: known[key] for key in keys})

    def heard(self, number: int) -> None:
        """Somebody applied a commit."""
        self._heard = max(self._heard, number)
        if number > self._own:
            self._head = None


def _size(record: StoredKey) -> int:
    return 0 if record.entry is None else len(record.entry.value)
