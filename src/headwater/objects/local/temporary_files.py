"""Files that are not objects yet: they are written and fsynced here, then linked to their key.

Each open store has its own directory under ``.tmp`` and holds a lock on it. A crash releases the
lock, and the next store that opens the same root deletes the directory.
"""

import errno
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headwater.objects.local.durable_directories import Descriptor
from headwater.objects.local.vectored_write import write_all
from headwater.objects.object_keys import TEMPORARY_SEGMENT
from headwater.objects.store import Buffer


class TemporaryArea:
    """The unfinished files of one store. May be called from several threads."""

    def __init__(self, root: Path) -> None:
        above = root / TEMPORARY_SEGMENT
        above.mkdir(exist_ok=True)
        remove_abandoned(above)
        self.path, self.directory = _claim(above)
        self._numbers = itertools.count()

    def write(self, parts: Sequence[Buffer]) -> str:
        """Write a file and make its bytes durable; returns its name in this directory.

        After a failure the file is deleted. A failed fsync is never repeated, because the kernel
        may have dropped the dirty pages and would report success.
        """
        name = str(next(self._numbers))
        number = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self.directory.number
        )
        try:
            try:
                write_all(number, parts, 0)
                os.fdatasync(number)
            finally:
                os.close(number)
        except OSError:
            self.remove(name)
            raise
        return name

    def remove(self, name: str) -> None:
        """Delete a file; it is no error if it does not exist."""
        try:
            os.unlink(name, dir_fd=self.directory.number)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EROFS, errno.EIO):
                raise

    def close(self) -> None:
        """Delete this directory, including files that are being written."""
        shutil.rmtree(self.path, ignore_errors=True)


def remove_abandoned(above: Path) -> None:
    """Delete the directories that are not locked, because their owners are dead."""
    for path in above.iterdir():
        try:
            directory = Descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            fcntl.flock(directory.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner is alive, or another process is deleting it
        shutil.rmtree(path, ignore_errors=True)


def _claim(above: Path) -> tuple[Path, Descriptor]:
    """Create a directory under ``above`` and lock it."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=above))
        try:
            directory = Descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            fcntl.flock(directory.number, fcntl.LOCK_EX)
            # Between mkdtemp and flock another process may have deleted it as abandoned.
            if path.stat().st_ino == os.fstat(directory.number).st_ino:
                return path, directory
        except FileNotFoundError:
            continue
