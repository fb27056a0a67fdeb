"""Reads, and the changes of past commits."""

import re
from collections.abc import AsyncGenerator

from headwater.errors import WatchTrimmed
from headwater.meta.feed import Revisions
from headwater.meta.oxia.keyspace import CommitLogEntry, OxiaKeyspace
from headwater.meta.oxia.rpc import oxia_pb2 as pb
from headwater.meta.oxia.shard import OxiaShard
from headwater.meta.store import Entry, Scan
from headwater.meta.values import decode

MAX_REVISIONS_PER_READ = 256
MAX_BYTES_PER_READ = 4 * 2**20


MAX_GUESSES = 3
GUESS_FACTOR = 8
"""Each guess reaches back this many times further than the one before."""
_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


def lowered(key: str, by: int) -> str:
    """The key with the number at its end reduced; the same key if it has no number.

    >>> lowered("index/0042", 3), lowered("index/0042", 50), lowered("topics/a", 3)
    ('index/0039', 'index/0000', 'topics/a')
    """
    found = _NUMBERED.match(key)
    if found is None:
        return key
    prefix, digits = found.groups()
    return f"{prefix}{max(0, int(digits) - by):0{len(digits)}d}"


def distance(before: str, after: str) -> int:
    """The difference of the numbers of two keys with one prefix; 0 for other keys.

    >>> distance("index/0039", "index/0042"), distance("index/0039", "layout/0042")
    (3, 0)
    """
    one, other = _NUMBERED.match(before), _NUMBERED.match(after)
    if one is None or other is None or one[1] != other[1] or len(one[2]) != len(other[2]):
        return 0
    return max(0, int(other[2]) - int(one[2]))


class OxiaReader:
    """Reads applied commits; a commit that is proposed but not applied is not visible."""

    def __init__(self, shard: OxiaShard, keyspace: OxiaKeyspace) -> None:
        self._shard = shard
        self._keyspace = keyspace

    async def get(self, key: str) -> Entry | None:
        path = self._keyspace.path(key)
        found = await self._shard.read([pb.GetRequest(key=path, include_value=True)])
        return self._keyspace.record(key, found[0]).entry

    async def scan(self, start: str, end: str, limit: int | None, *, reverse: bool) -> Scan:
        # The revision is read first, so that the entries are never older than it says.
        revision = await self.revision()
        if start >= end or limit == 0:
            return Scan([], revision)
        if not reverse:
            return Scan(await self._entries(start, end, limit), revision)
        entries = await (
            self._entries(start, end) if limit is None else self._last(start, end, limit)
        )
        entries.reverse()
        return Scan(entries[:limit], revision)

    async def _entries(self, start: str, end: str, limit: int | None = None) -> list[Entry]:
        entries: list[Entry] = []
        async for found in self._shard.scan(self._keyspace.path(start), self._keyspace.path(end)):
            entry = self._keyspace.record(self._keyspace.name(found.key), found).entry
            if entry is not None:
                entries.append(entry)
                if len(entries) == limit:
                    break
        return entries

    async def _last(self, start: str, end: str, limit: int) -> list[Entry]:
        """At least the last ``limit`` entries of a range, or all if it has fewer, in one snapshot.

        Oxia scans forwards only. If the keys end in numbers, the start of the scan is guessed from
        the difference of the last two, so that a long range is not read from its beginning.
        """
        newest = await self._floor(end)
        if newest == end:
            newest = await self._floor(lowered(newest, 1))
        before = await self._floor(lowered(newest, 1))
        reach = 2 * limit * distance(before, newest)
        for _ in range(MAX_GUESSES if reach else 0):
            first = lowered(newest, reach)
            if first <= start:
                break
            entries = await self._entries(first, end)
            if len(entries) >= limit:
                return entries
            reach *= GUESS_FACTOR
        return await self._entries(start, end)

    async def _floor(self, key: str) -> str:
        """The last key that is not above ``key``; an arbitrary string if there is none."""
        path = self._keyspace.path(key)
        wanted = pb.GetRequest(key=path, comparison_type=pb.FLOOR)
        return self._keyspace.name((await self._shard.read([wanted]))[0].key)

    async def scan_pages(self, start: str, end: str, size: int) -> AsyncGenerator[Scan, None]:
        """Pages of one range scan, which Oxia answers from one snapshot."""
        revision = await self.revision()
        entries: list[Entry] = []
        if start < end:
            async for found in self._shard.scan(
                self._keyspace.path(start), self._keyspace.path(end)
            ):
                entry = self._keyspace.record(self._keyspace.name(found.key), found).entry
                if entry is not None:
                    entries.append(entry)
                if len(entries) == size:
                    yield Scan(entries, revision)
                    entries = []
        yield Scan(entries, revision)

    async def revision(self) -> int:
        """The number of the last applied commit."""
        return self._keyspace.log_number((await self._shard.read([self.last_log()]))[0].key)

    def last_log(self) -> pb.GetRequest:
        """Reads the highest key of the commit log; finds another key if the log is empty."""
        return pb.GetRequest(key=self._keyspace.last_log, comparison_type=pb.FLOOR)

    async def changes(self, after: int) -> Revisions:
        """The next commits after a number; raises ``WatchTrimmed`` if they were trimmed."""
        revisions: Revisions = []
        size = 0
        async for found in self._shard.scan(self._keyspace.log(after + 1), self._keyspace.last_log):
            number = self._keyspace.log_number(found.key)
            if number != after + len(revisions) + 1:
                if not revisions:
                    raise WatchTrimmed(
                        f"the changes after commit {after} were trimmed up to commit {number - 1}"
                    )
                break
            revisions.append((number, list(decode(CommitLogEntry, found.value).changes)))
            size += len(found.value)
            if len(revisions) == MAX_REVISIONS_PER_READ or size > MAX_BYTES_PER_READ:
                break
        return revisions
