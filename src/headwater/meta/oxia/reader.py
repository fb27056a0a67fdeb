"""Reads, and the changes of past commits."""

from collections.abc import AsyncGenerator

from headwater.errors import WatchTrimmed
from headwater.meta.feed import Revisions
from headwater.meta.oxia.layout import Layout, Logged
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import Shard
from headwater.meta.store import Entry, Scan
from headwater.meta.values import decode

REVISIONS_AT_ONCE = 256
BYTES_AT_ONCE = 4 * 2**20


class Reader:
    """What is applied; a commit that is not yet is not seen."""

    def __init__(self, shard: Shard, layout: Layout) -> None:
        self._shard = shard
        self._layout = layout

    async def get(self, key: str) -> Entry | None:
        path = self._layout.path(key)
        found = await self._shard.read([pb.GetRequest(key=path, include_value=True)])
        return self._layout.record(key, found[0]).entry

    async def scan(self, start: str, end: str, limit: int | None, *, reverse: bool) -> Scan:
        # Read before the entries, so that these are never older than the revision says.
        revision = await self.revision()
        entries: list[Entry] = []
        if start < end and limit != 0:
            first, after = self._layout.path(start), self._layout.path(end)
            async for found in self._shard.scan(first, after):
                entry = self._layout.record(self._layout.name(found.key), found).entry
                if entry is not None:
                    entries.append(entry)
                    if len(entries) == limit and not reverse:
                        break
        if reverse:
            entries.reverse()
            entries = entries[:limit]
        return Scan(entries, revision)

    async def scan_pages(self, start: str, end: str, size: int) -> AsyncGenerator[Scan, None]:
        """Pages of one range scan, which Oxia answers from one moment."""
        revision = await self.revision()
        entries: list[Entry] = []
        if start < end:
            async for found in self._shard.scan(self._layout.path(start), self._layout.path(end)):
                entry = self._layout.record(self._layout.name(found.key), found).entry
                if entry is not None:
                    entries.append(entry)
                if len(entries) == size:
                    yield Scan(entries, revision)
                    entries = []
        yield Scan(entries, revision)

    async def revision(self) -> int:
        """The last commit that is applied."""
        return self._layout.log_number((await self._shard.read([self.last_log()]))[0].key)

    def last_log(self) -> pb.GetRequest:
        """Asks for the highest key of the log; where that is empty another key is found."""
        return pb.GetRequest(key=self._layout.last_log, comparison_type=pb.FLOOR)

    async def changes(self, after: int) -> Revisions:
        """The next commits after one; ``WatchTrimmed`` where they are forgotten."""
        revisions: Revisions = []
        size = 0
        async for found in self._shard.scan(self._layout.log(after + 1), self._layout.last_log):
            number = self._layout.log_number(found.key)
            if number != after + len(revisions) + 1:
                if not revisions:
                    raise WatchTrimmed(
                        f"changes after {after} were asked for, those before {number} are gone"
                    )
                break
            revisions.append((number, list(decode(Logged, found.value).changes)))
            size += len(found.value)
            if len(revisions) == REVISIONS_AT_ONCE or size > BYTES_AT_ONCE:
                break
        return revisions
