"""Keeps the journal and the change table short, in one of the processes that share the file.

The process that holds a lock file does it. If it dies, the kernel frees the lock and another
process takes over. Checkpoints copy pages without a lock that writers need. Only if steady load
keeps the journal from restarting are writers stopped, while the last pages are copied.
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
    """A thread that checkpoints and trims the file while this process holds the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = os.open(
            side_directory(path) / "checkpoint.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644
        )
        self._has_lock = False
        # A lost trim is repeated, so these commits need no fsync.
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
            self._has_lock = self._has_lock or try_lock(self._lock)
            if not self._has_lock:
                continue
            for task in (self._checkpoint, self._trim_changes):
                try:
                    task()
                except apsw.BusyError:
                    continue
                except apsw.Error as error:
                    log.warning(
                        "Could not checkpoint the metadata database",
                        extra={"path": self._path, "error": error},
                    )

    def _checkpoint(self) -> None:
        frames, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        self._idle = self._idle + PAUSE_SECONDS if frames == self._last_frames else 0.0
        self._last_frames = frames
        idle = self._idle >= IDLE_SECONDS
        if (frames - copied) * PAGE_BYTES >= COPY_BYTES or (idle and copied < frames):
            frames, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if frames * PAGE_BYTES >= RESTART_BYTES and frames != self._restarted:
            # Concurrent commits keep the journal from restarting. Most pages are copied while
            # they run, so that they are stopped only for the remaining pages.
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            # The longer the journal, the longer this waits for a reader that still needs it.
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
            return os.stat(f"{self._path}-wal").st_size  # noqa: PTH116 - SQLite chose the name
        return 0

    def _trim_changes(self) -> None:
        """Delete the oldest changes beyond the bounds, but never the newest.

        The newest change holds the store's revision.
        """
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
