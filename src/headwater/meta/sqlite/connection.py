"""Opens the file: version, settings and schema."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from headwater.directories import make_durable, sync_directory
from headwater.errors import ConfigurationError, StorageFull, StoreUnavailable, UnknownFormat

FORMAT = 1
APPLICATION_ID = 0x48574D31
OLDEST_SQLITE = (3, 51, 3)
PAGE_BYTES = 4096
PREPARED_STATEMENTS = 128
JOURNAL_KEPT_BYTES = 64 * 2**20

SCHEMA = """
CREATE TABLE kv (
  key TEXT PRIMARY KEY, value BLOB NOT NULL, revision INTEGER NOT NULL, session TEXT
) WITHOUT ROWID, STRICT;
CREATE INDEX kv_session ON kv (session) WHERE session IS NOT NULL;
CREATE TABLE change (revision INTEGER PRIMARY KEY, changes BLOB NOT NULL) STRICT;
INSERT INTO change VALUES (0, x'90');
CREATE TABLE session (
  id TEXT PRIMARY KEY, expires REAL NOT NULL, boot TEXT NOT NULL, opened_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
"""
"""``change`` has one row per revision, a MessagePack list. Its last row is the store's revision and
is never deleted. A session's ``expires`` is a time of the host's boot clock; ``boot`` is that
boot's id."""


def check_sqlite_version() -> None:
    """Refuse an SQLite that can corrupt a WAL journal with several writers."""
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise ConfigurationError(
            f"apsw brings SQLite {apsw.sqlite_lib_version()}, which can corrupt a database with "
            f"several writers; {oldest} or later is needed: pip install 'apsw>={oldest}'"
        )


def side_directory(path: Path) -> Path:
    """The directory for the locks and sockets of the processes that share ``path``."""
    return path.with_name(f"{path.name}.d")


def prepare(path: Path, busy_seconds: float) -> None:
    """Create the file if it is absent, and check that it is a metadata database.

    Raises ``ConfigurationError`` with one line that says what is wrong, ``UnknownFormat`` if a
    newer release wrote the file, ``StoreUnavailable`` if another process keeps it locked.
    """
    check_sqlite_version()
    try:
        make_durable(path.parent)
        side_directory(path).mkdir(exist_ok=True)
        with _only_one_opens(path, busy_seconds):
            if _is_empty(path, busy_seconds):
                _create(path, busy_seconds)
        sync_directory(path.parent)  # Another process may have created the file.
    except OSError as error:
        raise ConfigurationError(
            f"metadata database {path} cannot be used: {error.strerror}: {error.filename}"
        ) from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise ConfigurationError(
            f"metadata database {path} is damaged or not a database ({error}): "
            "restore it or name another file"
        ) from error
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError) as error:
        raise ConfigurationError(
            f"metadata database {path} cannot be written ({error}): "
            "check the permissions of the file and its directory"
        ) from error
    except apsw.FullError as error:
        raise StorageFull(f"metadata database {path}: {error}; free some space") from error
    except apsw.IOError as error:
        raise StoreUnavailable(
            f"metadata database {path}: {error}; check that the disk has space and no fault"
        ) from error
    except apsw.Error as error:
        raise StoreUnavailable(f"metadata database {path}: {error}") from error


def connect(
    path: Path, busy_seconds: float, *, cache_bytes: int = 2**20, synchronous: str = "FULL"
) -> apsw.Connection:
    """A connection with the settings that all processes must use."""
    connection = apsw.Connection(str(path), statementcachesize=PREPARED_STATEMENTS)
    connection.set_busy_handler(patience(busy_seconds))
    for setting in (
        f"page_size={PAGE_BYTES}",
        "journal_mode=WAL",
        f"synchronous={synchronous}",
        # One of the processes makes checkpoints, off the commit path.
        "wal_autocheckpoint=0",
        f"journal_size_limit={JOURNAL_KEPT_BYTES}",
        f"cache_size=-{cache_bytes // 1024}",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {setting}").fetchall()
    return connection


def one_row(cursor: apsw.Cursor) -> tuple[Any, ...]:
    """The only row of a query."""
    row: tuple[Any, ...] | None = cursor.fetchone()
    assert row is not None
    return row


def patience(seconds: float) -> Callable[[int], bool]:
    """A busy handler that retries soon: a commit of another process takes less than 1 ms."""
    started = 0.0

    def wait(count: int) -> bool:
        nonlocal started
        if count == 0:
            started = time.monotonic()
        waited = time.monotonic() - started
        if waited > seconds:
            return False
        # After a long wait the reason is a long transaction or a stopped process.
        time.sleep(0.000_2 if waited < 0.05 else 0.002)
        return True

    return wait


def _is_empty(path: Path, busy_seconds: float) -> bool:
    """Whether the schema must be created. The file is not changed."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_handler(patience(busy_seconds))
        if connection.readonly("main"):
            raise ConfigurationError(
                f"metadata database {path} is read-only: "
                "check the permissions of the file and its directory"
            )
        application, version, tables = one_row(
            connection.execute(
                "SELECT (SELECT application_id FROM pragma_application_id),"
                " (SELECT user_version FROM pragma_user_version),"
                " (SELECT count(*) FROM sqlite_schema)"
            )
        )
    if tables == 0 and application == 0:
        return True
    if application != APPLICATION_ID:
        raise ConfigurationError(
            f"{path} is a database of another program: name another file for the metadata"
        )
    if version > FORMAT:
        raise UnknownFormat(
            f"metadata database {path} has format {version}, this release knows up to {FORMAT}: "
            "use the release that wrote it, or a later one"
        )
    return False


def _create(path: Path, busy_seconds: float) -> None:
    # Plain statements, because apsw's context manager would roll back a second time if the disk is
    # full, which hides the error.
    with closing(connect(path, busy_seconds)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(SCHEMA)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}").fetchall()
        connection.execute(f"PRAGMA user_version={FORMAT}").fetchall()
        connection.execute("COMMIT")


@contextmanager
def _only_one_opens(path: Path, busy_seconds: float) -> Iterator[None]:
    # If two processes switch a file to the WAL journal at once, both can be refused.
    name = side_directory(path) / "open.lock"
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    wait = patience(busy_seconds)
    tries = 0
    try:
        while not try_lock(descriptor):
            if not wait(tries):
                raise StoreUnavailable(f"metadata database {path}: {name} is held for too long")
            tries += 1
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the file's lock if it is free. The kernel frees it when the process ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
