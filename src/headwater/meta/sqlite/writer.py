"""Transactions and sessions, on the writer's thread.

Each statement gives the interpreter lock away and takes it back, which under load costs more than
its work in SQLite. So a commit of up to some hundred keys is five statements: the keys are read as
one row of text, and written by statements of many rows.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path

import apsw
import msgspec

from headwater.errors import SessionLost
from headwater.meta.feed import Item
from headwater.meta.sqlite.changes import encode
from headwater.meta.sqlite.connection import connect, one_row
from headwater.meta.sqlite.failures import store_error
from headwater.meta.store import CommitResult, Decide, Entry, T, Writes

CACHE_BYTES = 16 * 2**20
ROWS_AT_ONCE = (256, 64)

READ = """
SELECT (SELECT max(revision) FROM change),
  (SELECT group_concat(k.key || ':' || kv.revision || ':' || hex(kv.value))
   FROM json_each(?) AS k CROSS JOIN kv ON kv.key = k.value)
"""
LAST_REVISION = "SELECT max(revision) FROM change"
ALIVE = "SELECT 1 FROM session WHERE id = ? AND expires > ? AND boot = ?"
EXPIRED = "SELECT id FROM session WHERE expires <= ? OR boot <> ?"

Time = Callable[[], tuple[float, str]]
"""The host's boot clock in seconds, and the boot's name."""


class SqliteWriter:
    """The writing connection of a process. All methods are for one thread."""

    def __init__(self, path: Path, *, busy_seconds: float, time: Time) -> None:
        self._connection = connect(path, busy_seconds, cache_bytes=CACHE_BYTES)
        # One cursor for all statements: each resets the one before, so none outlives its COMMIT.
        self._cursor = self._connection.cursor()
        self._time = time

    def close(self) -> None:
        self._connection.close()

    def transact(
        self, keys: Sequence[str], decide: Decide[T]
    ) -> tuple[CommitResult[T], list[Item]]:
        """Run and commit ``decide``. The changes are returned for the watches of this process."""
        with self._transaction() as commit:
            revision, values = self._read(keys)
            writes, result = decide(values)
            items = self._write(revision + 1, writes) if writes else []
            if items:
                revision += 1
                commit()
        return CommitResult(revision, result), items

    def open_session(self, session: str, ttl: float, opened_ms: int) -> None:
        with self._transaction() as commit:
            now, boot = self._time()
            self._cursor.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?)", (session, now + ttl, boot, opened_ms)
            )
            commit()

    def renew_session(self, session: str, ttl: float) -> None:
        """Extend the session. Raises ``SessionLost`` if it has expired."""
        with self._transaction() as commit:
            now, _ = self._time()
            self._require_alive(session)
            self._cursor.execute(
                "UPDATE session SET expires = ? WHERE id = ?", (now + ttl, session)
            )
            commit()

    def end_session(self, session: str) -> tuple[int, list[Item]]:
        with self._transaction() as commit:
            revision, items = self._end_sessions([session])
            commit()
        return revision, items

    def end_expired_sessions(self) -> tuple[int, list[Item]]:
        """Delete the keys of expired sessions. The expiry is compared under the write lock."""
        with self._transaction() as commit:
            expired = [row[0] for row in self._cursor.execute(EXPIRED, self._time())]
            revision, items = self._end_sessions(expired)
            commit()
        return revision, items

    @contextmanager
    def _transaction(self) -> Iterator[Callable[[], None]]:
        commits = False

        def commit() -> None:
            nonlocal commits
            commits = True
            self._cursor.execute("COMMIT")

        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            yield commit
        except apsw.Error as error:
            raise store_error(error, self._connection, commits=commits) from error
        finally:
            if self._connection.in_transaction:
                with suppress(apsw.Error):  # The caller needs the first error.
                    self._cursor.execute("ROLLBACK")

    def _read(self, keys: Sequence[str]) -> tuple[int, dict[str, Entry | None]]:
        asked = msgspec.json.encode(keys).decode()
        revision, found = one_row(self._cursor.execute(READ, (asked,)))
        values: dict[str, Entry | None] = dict.fromkeys(keys)
        if found:
            for row in found.split(","):
                position, written, value = row.split(":")
                key = keys[int(position)]
                values[key] = Entry(key, bytes.fromhex(value), int(written))
        return revision, values

    def _write(self, revision: int, writes: Writes) -> list[Item]:
        items: list[Item] = []
        if writes.deletes or writes.range_deletes:
            items = [(key, None) for key in self._delete(writes) if key not in writes.puts]
        self._put(revision, list(chain.from_iterable(writes.puts.items())))
        for key, session in writes.ephemeral.items():
            self._require_alive(session)
            self._cursor.execute("UPDATE kv SET session = ? WHERE key = ?", (session, key))
        items.extend(writes.puts.items())
        self._record(revision, items)
        return items

    def _put(self, revision: int, bindings: list[str | bytes]) -> None:
        """Write keys and values, which alternate in ``bindings``."""
        position = 0
        while left := (len(bindings) - position) // 2:
            # Few sizes of statements, so that they stay prepared; the rest is one statement.
            rows = next((rows for rows in ROWS_AT_ONCE if rows <= left), left)
            chunk = bindings[position : position + 2 * rows]
            self._cursor.execute(_put_statement(rows), [revision, *chunk])
            position += 2 * rows

    def _delete(self, writes: Writes) -> list[str]:
        deleted: set[str] = set()
        if writes.deletes:
            asked = msgspec.json.encode(writes.deletes).decode()
            deleted.update(
                row[0]
                for row in self._cursor.execute(
                    "DELETE FROM kv WHERE key IN (SELECT value FROM json_each(?)) RETURNING key",
                    (asked,),
                )
            )
        for start, end in writes.range_deletes:
            deleted.update(
                row[0]
                for row in self._cursor.execute(
                    "DELETE FROM kv WHERE key >= ? AND key < ? RETURNING key", (start, end)
                )
            )
        return sorted(deleted)

    def _end_sessions(self, sessions: list[str]) -> tuple[int, list[Item]]:
        named = (msgspec.json.encode(sessions).decode(),)
        (revision,) = one_row(self._cursor.execute(LAST_REVISION))
        owned = self._cursor.execute(
            "DELETE FROM kv WHERE session IN (SELECT value FROM json_each(?)) RETURNING key", named
        )
        items: list[Item] = [(key, None) for key in sorted(row[0] for row in owned)]
        self._cursor.execute(
            "DELETE FROM session WHERE id IN (SELECT value FROM json_each(?))", named
        )
        if items:
            revision += 1
            self._record(revision, items)
        return revision, items

    def _record(self, revision: int, items: list[Item]) -> None:
        if items:
            self._cursor.execute("INSERT INTO change VALUES (?, ?)", (revision, encode(items)))

    def _require_alive(self, session: str) -> None:
        if self._cursor.execute(ALIVE, (session, *self._time())).fetchone() is None:
            raise SessionLost(f"session {session} has ended")


@cache
def _put_statement(rows: int) -> str:
    values = ", ".join(f"(?{2 * row + 2}, ?{2 * row + 3}, ?1, NULL)" for row in range(rows))
    return (
        f"INSERT INTO kv VALUES {values} ON CONFLICT (key) DO UPDATE SET "  # noqa: S608 - digits only
        "value = excluded.value, revision = excluded.revision, session = excluded.session"
    )
