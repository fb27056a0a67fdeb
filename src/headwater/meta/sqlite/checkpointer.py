"""Keeping journal and change table short, in one process of all that share the file.

The one that holds a file's lock does it; when it dies, the kernel frees the lock and another
takes over. It works beside the commits: it copies pages with no lock that a writer needs, and
only where steady load keeps the journal from starting over does it stop writers for the moment
that the last pages take.
"""

import logging
import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from headwater.meta.sqlite.connection import (
    JOURNAL_KEPT_BYTES,
    PAGE_BYTES,
    connect,
    patience,
    side_directory,
    try_lock,
)

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25
IDLE_SECONDS = 10.0
COPY_BYTES = 16 * 2**20
RESTART_BYTES = 48 * 2**20
RESTART_PATIENCE = 0.01
BLOCK_REVISIONS = 1_000
KEPT_REVISIONS = 50_000
KEPT_CHANGE_BYTES = 64 * 2**20


class SqliteCheckpointer:
    """A thread that tends the file while this process holds the duty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = os.open(
            side_directory(path) / "checkpoint.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        self._on_duty = False
        # What is trimmed may be trimmed again: these commits need no fsync of their own.
        self._connection = connect(path, RESTART_PATIENCE, synchronous="NORMAL")
        self._measured: deque[tuple[Any, ...]] = deque()
        self._measured_to = -1
        self._idle = 0.0
        self._last_frames = 0
        self._restarted = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="headwater-meta-checkpoint", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()
        os.close(self._lock)

    def _work(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self._on_duty = self._on_duty or try_lock(self._lock)
            if not self._on_duty:
                continue
            for duty in (self._checkpoint, self._trim_changes):
                try:
                    duty()
                except apsw.BusyError:
                    continue
                except apsw.Error as error:
                    log.warning("metadata database %s is not tended: %s", self._path, error)

    def _checkpoint(self) -> None:
        frames, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        self._idle = self._idle + PAUSE_SECONDS if frames == self._last_frames else 0.0
        self._last_frames = frames
        idle = self._idle >= IDLE_SECONDS
        if (frames - copied) * PAGE_BYTES >= COPY_BYTES or (idle and copied < frames):
            frames, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if frames * PAGE_BYTES >= RESTART_BYTES and frames != self._restarted:
            # Commits that came in meanwhile keep the journal from starting over by itself.
            # What can be copied beside them is, so that they are stopped for the rest alone.
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            # The longer the journal has grown, the longer a reader that pins it is waited for.
            self._connection.set_busy_handler(
                patience(RESTART_PATIENCE * frames * PAGE_BYTES / RESTART_BYTES)
            )
            self._restarted, _ = self._connection.wal_checkpoint(
                mode=apsw.SQLITE_CHECKPOINT_RESTART
            )
        elif idle and frames and self._journal_bytes() > JOURNAL_KEPT_BYTES:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _journal_bytes(self) -> int:
        with suppress(FileNotFoundError):
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 - SQLite's name for it
        return 0

    def _trim_changes(self) -> None:
        """Delete the oldest changes beyond the bounds; the last one is the store's revision."""
        if self._idle:
            return
        blocks: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT max(revision), count(*), total(length(changes)) FROM change"
            " WHERE revision > ? GROUP BY revision / ? ORDER BY 1",
            (self._measured_to, BLOCK_REVISIONS),
        ).fetchall()
        if not blocks:
            return
        self._measured.extend(blocks)
        self._measured_to = blocks[-1][0]
        revisions = sum(block[1] for block in self._measured)
        total = sum(block[2] for block in self._measured)
        last = -1
        while len(self._measured) > 1 and (revisions > KEPT_REVISIONS or total > KEPT_CHANGE_BYTES):
            last, count, size = self._measured.popleft()
            revisions -= count
            total -= size
        if last >= 0:
            self._connection.execute("DELETE FROM change WHERE revision <= ?", (last,))
