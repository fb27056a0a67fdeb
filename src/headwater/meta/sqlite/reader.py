"""Reads on the reader's thread: short transactions that never wait for a writer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from headwater.errors import WatchTrimmed
from headwater.meta.feed import Item
from headwater.meta.sqlite.changes import decode
from headwater.meta.sqlite.connection import connect, one_row
from headwater.meta.sqlite.failures import store_error
from headwater.meta.sqlite.writer import EXPIRED, LAST_REVISION, Time
from headwater.meta.store import Entry, Scan

CACHE_BYTES = 8 * 2**20
REVISIONS_AT_ONCE = 500

SCAN = "SELECT key, value, revision FROM kv WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
SCAN_BACKWARDS = SCAN.replace("ORDER BY key", "ORDER BY key DESC")
BOUNDS = "SELECT (SELECT min(revision) FROM change), (SELECT max(revision) FROM change)"


class SqliteReader:
    """The reading connection of a process. All methods are for one thread."""

    def __init__(self, path: Path, *, busy_seconds: float, time: Time) -> None:
        self._connection = connect(path, busy_seconds, cache_bytes=CACHE_BYTES)
        self._time = time

    def close(self) -> None:
        self._connection.close()

    def get(self, key: str) -> Entry | None:
        with self._errors():
            row = self._connection.execute(
                "SELECT value, revision FROM kv WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Entry(key, row[0], row[1])

    def scan(self, start: str, end: str, limit: int | None, *, reverse: bool) -> Scan:
        with self._snapshot():
            rows = self._connection.execute(
                SCAN_BACKWARDS if reverse else SCAN, (start, end, -1 if limit is None else limit)
            )
            entries = [Entry(*row) for row in rows]
            return Scan(entries, self._revision())

    def begin_pages(self) -> int:
        """Begin a transaction for reading pages; returns its revision."""
        with self._errors():
            self._connection.execute("BEGIN")
            return self._revision()

    def page(self, start: str, end: str, size: int) -> list[Entry]:
        """The next entries in that transaction."""
        with self._errors():
            return [Entry(*row) for row in self._connection.execute(SCAN, (start, end, size))]

    def revision(self) -> int:
        with self._errors():
            return self._revision()

    def changes(self, after: int) -> list[tuple[int, list[Item]]]:
        """The next revisions above ``after``. Raises ``WatchTrimmed`` if one was trimmed."""
        with self._snapshot():
            oldest, newest = one_row(self._connection.execute(BOUNDS))
            if after + 1 < oldest:
                raise WatchTrimmed(
                    f"changes before revision {oldest} were trimmed; requested: after {after}"
                )
            if after >= newest:
                return []
            rows: list[tuple[Any, ...]] = self._connection.execute(
                "SELECT revision, changes FROM change WHERE revision > ? ORDER BY revision LIMIT ?",
                (after, REVISIONS_AT_ONCE),
            ).fetchall()
            return [self._revision_changes(*row) for row in rows]

    def sessions_have_expired(self) -> bool:
        with self._errors():
            return self._connection.execute(EXPIRED, self._time()).fetchone() is not None

    def _revision_changes(self, revision: int, stored: bytes) -> tuple[int, list[Item]]:
        items: list[Item] = []
        for key, value in decode(stored):
            if not isinstance(value, bool):
                items.append((key, value))
                continue
            row = self._connection.execute(
                "SELECT value FROM kv WHERE key = ? AND revision = ?", (key, revision)
            ).fetchone()
            if row is not None:
                items.append((key, row[0]))
        return revision, items

    def _revision(self) -> int:
        return int(one_row(self._connection.execute(LAST_REVISION))[0])

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        with self._errors():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise store_error(error, self._connection, commits=False) from error
