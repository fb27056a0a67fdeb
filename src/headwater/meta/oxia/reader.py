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

REVISIONS_AT_ONCE = 256
BYTES_AT_ONCE = 4 * 2**20


GUESSES = 3
GUESS_FACTOR = 8
"""How much further back each guess reaches than the one before."""
_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


def lowered(key: str, by: int) -> str:
    """A key whose number at the end is smaller, or the same key if it has none.

    >>> lowered("index/0042", 3), lowered("index/0042", 50), lowered("topics/a", 3)
    ('index/0039', 'index/0000', 'topics/a')
    """
    found = _NUMBERED.match(key)
    if found is None:
        return key
    prefix, digits = found.groups()
    return f"{prefix}{max(0, int(digits) - by):0{len(digits)}d}"


def distance(before: str, after: str) -> int:
    """How far two numbered keys of one kind are apart; 0 if they are not such.

    >>> distance("index/0039", "index/0042"), distance("index/0039", "layout/0042")
    (3, 0)
    """
    one, other = _NUMBERED.match(before), _NUMBERED.match(after)
    if one is None or other is None or one[1] != other[1] or len(one[2]) != len(other[2]):
        return 0
    return max(0, int(other[2]) - int(one[2]))


class OxiaReader:
    """What is applied; a commit that is not yet is not seen."""

    def __init__(self, shard: OxiaShard, layout: OxiaKeyspace) -> None:
        self._shard = shard
        self._layout = layout

    async def get(self, key: str) -> Entry | None:
        path = self._layout.path(key)
        found = await self._shard.read([pb.GetRequest(key=path, include_value=True)])
        return self._layout.record(key, found[0]).entry

    async def scan(self, start: str, end: str, limit: int | None, *, reverse: bool) -> Scan:
        # Read before the entries, so that these are never older than the revision says.
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
        async for found in self._shard.scan(self._layout.path(start), self._layout.path(end)):
            entry = self._layout.record(self._layout.name(found.key), found).entry
            if entry is not None:
                entries.append(entry)
                if len(entries) == limit:
                    break
        return entries

    async def _last(self, start: str, end: str, limit: int) -> list[Entry]:
        """At least the last ``limit`` entries of a range, of one moment, if it has so many.

        Oxia scans forwards only. Where keys end in numbers, a place near the end is guessed from
        the distance of the last two, so that not all of a long range is read.
        """
        newest = await self._floor(end)
        if newest == end:
            newest = await self._floor(lowered(newest, 1))
        before = await self._floor(lowered(newest, 1))
        reach = 2 * limit * distance(before, newest)
        for _ in range(GUESSES if reach else 0):
            first = lowered(newest, reach)
            if first <= start:
                break
            entries = await self._entries(first, end)
            if len(entries) >= limit:
                return entries
            reach *= GUESS_FACTOR
        return await self._entries(start, end)

    async def _floor(self, key: str) -> str:
        """The last key up to ``key``; some other text if there is none."""
        path = self._layout.path(key)
        wanted = pb.GetRequest(key=path, comparison_type=pb.FLOOR)
        return self._layout.name((await self._shard.read([wanted]))[0].key)

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
            revisions.append((number, list(decode(CommitLogEntry, found.value).changes)))
            size += len(found.value)
            if len(revisions) == REVISIONS_AT_ONCE or size > BYTES_AT_ONCE:
                break
        return revisions
