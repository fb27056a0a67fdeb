"""Reads: each is one statement, so that it sees one snapshot of the database."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from headwater.errors import WatchTrimmed
from headwater.meta.feed import Item, Revisions
from headwater.meta.postgres.address import PostgresAddress
from headwater.meta.postgres.connections import PostgresConnections, connect
from headwater.meta.postgres.failures import translated
from headwater.meta.postgres.key_text import is_storable, text_bound
from headwater.meta.store import Entry, Scan

if TYPE_CHECKING:
    import asyncpg

MAX_REVISIONS_PER_READ = 500

GET = "SELECT key, value, revision FROM entry WHERE key = $1"
SCAN = """
SELECT head.revision AS now, found.key, found.value, found.revision
FROM head LEFT JOIN LATERAL (
  SELECT key, value, revision FROM entry WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3
) AS found ON true ORDER BY found.key
"""
SCAN_BACKWARDS = SCAN.replace("ORDER BY key", "ORDER BY key DESC").replace(
    "ORDER BY found.key", "ORDER BY found.key DESC"
)
PAGES_TIMEOUTS = """
SELECT set_config(name, CASE name WHEN 'transaction_timeout' THEN '0' ELSE '60s' END, false)
FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
"""Longer timeouts: the caller may upload a page before it reads the next one.

The transaction holds no lock meanwhile, but vacuum cannot remove dead rows.
"""
CHANGES = f"""
SELECT head.revision AS now, (SELECT min(revision) FROM change) AS oldest,
  found.revision, found.keys, found.data, found.referenced
FROM head LEFT JOIN LATERAL (
  SELECT revision, keys, data, referenced FROM change
  WHERE revision > $1 ORDER BY revision LIMIT {MAX_REVISIONS_PER_READ}
) AS found ON true ORDER BY found.revision
"""  # noqa: S608 - a constant of this module
REFERENCED = """
SELECT key, revision, value FROM entry
JOIN unnest($1::text[], $2::bigint[]) AS wanted (key, revision) USING (key, revision)
"""


class PostgresReader:
    """Reads the committed state, on the connections of a pool."""

    def __init__(self, connections: PostgresConnections, address: PostgresAddress) -> None:
        self._connections = connections
        self._address = address
        self._label = address.label

    async def get(self, key: str) -> Entry | None:
        rows = await self._fetch(GET, key) if is_storable(key) else []
        return Entry(*rows[0]) if rows else None

    async def scan(self, start: str, end: str, limit: int | None, *, reverse: bool) -> Scan:
        statement = SCAN_BACKWARDS if reverse else SCAN
        rows = await self._fetch(statement, text_bound(start), text_bound(end), limit)
        entries = [
            Entry(key, value, revision) for _, key, value, revision in rows if key is not None
        ]
        return Scan(entries, rows[0][0])

    async def scan_pages(self, start: str, end: str, size: int) -> AsyncGenerator[Scan, None]:
        """Read all pages in one transaction, on a separate connection."""
        with translated(self._label):
            connection = await connect(self._address)
            try:
                await connection.execute(PAGES_TIMEOUTS)
                await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                first, after = text_bound(start), text_bound(end)
                while True:
                    rows = await connection.fetch(SCAN, first, after, size)
                    entries = [Entry(*row[1:]) for row in rows if row[1] is not None]
                    yield Scan(entries, rows[0][0])
                    if len(entries) < size:
                        return
                    first = text_bound(entries[-1].key + "\0")
            finally:
                connection.terminate()

    async def revision(self) -> int:
        return int((await self._fetch("SELECT revision FROM head"))[0][0])

    async def changes(self, after: int) -> Revisions:
        """The next revisions after ``after``; raises ``WatchTrimmed`` if some of them are gone."""
        rows = await self._fetch(CHANGES, after)
        now, oldest = rows[0]["now"], rows[0]["oldest"]
        if after < now and (oldest is None or after + 1 < oldest):
            raise WatchTrimmed(
                f"the changes after revision {after} were trimmed up to revision "
                f"{(oldest or now + 1) - 1}"
            )
        found = [row for row in rows if row["revision"] is not None]
        large = await self._referenced(found)
        return [(row["revision"], _items(row, large)) for row in found]

    async def _referenced(self, rows: list["asyncpg.Record"]) -> dict[tuple[str, int], bytes]:
        """The values that the change table does not copy, unless a later revision replaced them."""
        wanted = [
            (key, row["revision"])
            for row in rows
            if any(row["referenced"])
            for key, referenced in zip(row["keys"], row["referenced"], strict=True)
            if referenced
        ]
        if not wanted:
            return {}
        keys, revisions = zip(*wanted, strict=True)
        found = await self._fetch(REFERENCED, keys, revisions)
        return {(key, revision): value for key, revision, value in found}

    async def _fetch(self, statement: str, *arguments: object) -> list["asyncpg.Record"]:
        with translated(self._label):
            async with self._connections.held() as connection:
                return await connection.fetch(statement, *arguments)


def _items(row: "asyncpg.Record", large: dict[tuple[str, int], bytes]) -> list[Item]:
    items: list[Item] = []
    for key, value, referenced in zip(row["keys"], row["data"], row["referenced"], strict=True):
        if not referenced:
            items.append((key, value))
        elif (key, row["revision"]) in large:
            items.append((key, large[key, row["revision"]]))
    return items
