"""Forgetting old commits and the marks of deleted keys.

Whoever made a commit with a round number does it, so that one process of all does and nobody has
to be elected. Age is Oxia's own: how much older a commit's record is than the newest one. The
marks go first, by a commit of their own; then the part of the log that named them.
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
"""Far longer than an apply can be under way."""


def trims_after(number: int) -> bool:
    """Whether the commit of that number is followed by a turn."""
    return number % COMMITS_PER_TRIM == 0


class OxiaTrimmer:
    """Trims the log of one store."""

    def __init__(
        self, shard: OxiaShard, layout: OxiaKeyspace, reader: OxiaReader, committer: OxiaCommitter
    ) -> None:
        self._shard = shard
        self._layout = layout
        self._reader = reader
        self._committer = committer

    async def take_turn(self) -> None:
        """Forget what is older than ``KEPT_MS``."""
        newest = (await self._shard.read([self._reader.last_log()]))[0].version.modified_timestamp
        deleted: dict[str, int] = {}
        last = 0
        async for found in self._shard.scan(self._layout.logs, self._layout.last_log):
            if found.version.modified_timestamp >= newest - KEPT_MS:  # never the newest itself
                break
            last = self._layout.log_number(found.key)
            for key, value in decode(CommitLogEntry, found.value).changes:
                if value is None:
                    deleted[key] = last
        if not last:
            return
        marks = list(deleted)
        step = LIMITS.operations or len(marks)
        for start in range(0, len(marks), step):
            await self._purge(marks[start : start + step], last)
        gone = pb.DeleteRangeRequest(
            start_inclusive=self._layout.logs, end_exclusive=self._layout.log(last + 1)
        )
        await self._shard.write(pb.WriteRequest(delete_ranges=[gone]))

    async def _purge(self, marks: list[str], last: int) -> None:
        """Remove marks that are no younger than the commit ``last``."""

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

        await self._committer.commit(marks, plan)
