"""Deletes old entries of the commit log, and tombstones of deleted keys.

The process that made every ``COMMITS_PER_TRIM``-th commit trims, so that one process trims at a
time without an election. The age of a commit is measured by Oxia's timestamps, relative to the
newest commit. The tombstones are deleted first, by a commit; then the log entries that named them.
"""

from headwater.meta.oxia.committer import LIMITS, OxiaCommitter
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import CommitLogEntry, Head, OxiaKeyspace
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from headwater.meta.store import Writes
from headwater.meta.values import decode

COMMITS_PER_TRIM = 256
KEPT_MS = 15 * 60 * 1000
"""Far longer than applying a commit can take."""


def trims_after(number: int) -> bool:
    """Whether the process that made the commit with this number trims after it."""
    return number % COMMITS_PER_TRIM == 0


class OxiaTrimmer:
    """Trims the log of one store."""

    def __init__(
        self, shard: OxiaShard, keyspace: OxiaKeyspace, reader: OxiaReader, committer: OxiaCommitter
    ) -> None:
        self._shard = shard
        self._keyspace = keyspace
        self._reader = reader
        self._committer = committer

    async def trim(self) -> None:
        """Delete log entries and tombstones that are older than ``KEPT_MS``."""
        newest = (await self._shard.read([self._reader.last_log()]))[0].version.modified_timestamp
        deleted: dict[str, int] = {}
        last = 0
        async for found in self._shard.scan(self._keyspace.logs, self._keyspace.last_log):
            if (
                found.version.modified_timestamp >= newest - KEPT_MS
            ):  # never the newest entry itself
                break
            last = self._keyspace.log_number(found.key)
            for key, value in decode(CommitLogEntry, found.value).changes:
                if value is None:
                    deleted[key] = last
        if not last:
            return
        tombstones = list(deleted)
        step = LIMITS.operations or len(tombstones)
        for start in range(0, len(tombstones), step):
            await self._purge(tombstones[start : start + step], last)
        gone = pb.DeleteRangeRequest(
            start_inclusive=self._keyspace.logs, end_exclusive=self._keyspace.log(last + 1)
        )
        await self._shard.write(pb.WriteRequest(delete_ranges=[gone]))

    async def _purge(self, tombstones: list[str], last: int) -> None:
        """Delete tombstones that commit ``last`` or an earlier one wrote."""

        def plan(seen: HeadSnapshot) -> tuple[Writes | Head, None]:
            purged = [
                (key, record.version)
                for key, record in seen.records.items()
                if record.entry is None and 0 < record.number <= last
            ]
            if not purged:
                return Writes(), None
            head = Head(number=seen.head.number + 1, purged=purged, owners=seen.head.owners)
            return head, None

        await self._committer.commit(tombstones, plan)
