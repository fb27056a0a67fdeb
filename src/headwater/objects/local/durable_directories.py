"""Directories whose entries survive a power failure.

The fsync of a file does not make its name durable. That needs an fsync of its directory, and of the
parent of every directory that was created for it.
"""

import contextlib
import errno
import os
import threading
from pathlib import Path

from cachetools import LRUCache


class Descriptor:
    """An open file descriptor that is closed when the last reference to it is dropped.

    A cache may therefore drop a descriptor that another thread still uses.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class DurableDirectories:
    """The directories under a root that are known to be durable, each with an open descriptor.

    Directories are used through their descriptors only. If another process deletes a directory and
    creates it again, the new one is then not mistaken for the durable one: linking into the deleted
    one fails with ENOENT, and the caller calls ``forget`` and tries again.

    May be called from several threads.
    """

    def __init__(self, root: Path, *, capacity: int = 256) -> None:
        self._root = Descriptor(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
        self._known: LRUCache[str, Descriptor] = LRUCache(capacity)
        self._failed: set[str] = set()
        self._lock = threading.Lock()
        self._syncing = threading.Lock()

    def open(self, directory: str) -> Descriptor:
        """A directory, created if it is missing, which is durable with all of its parents.

        The first use of each directory costs one fsync of its parent, even if it exists already:
        the process that created it may not have finished its fsync.
        """
        if not directory:
            return self._root
        with self._lock:
            if known := self._known.get(directory):
                return known
        above, _, name = directory.rpartition("/")
        parent = self.open(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent.number)
        # Opened before the fsync, so that the fsync makes exactly this directory durable.
        opened = Descriptor(os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent.number))
        self.sync(above, parent)
        with self._lock:
            self._known[directory] = opened
        return opened

    def sync(self, directory: str, opened: Descriptor) -> None:
        """Make the entries of a directory durable.

        After a failed fsync the kernel may have dropped the unwritten data and would report success
        the next time. A directory whose fsync failed once is therefore refused from then on.
        """
        # One fsync at a time: the kernel reports an error to only one of the callers.
        with self._syncing:
            if directory in self._failed:
                raise OSError(errno.EIO, "an earlier fsync of this directory failed")
            try:
                os.fsync(opened.number)
            except OSError:
                self._failed.add(directory)
                raise

    def forget(self, directory: str) -> None:
        """Open a directory and its parents again at their next use."""
        with self._lock:
            while directory:
                self._known.pop(directory, None)
                directory = directory.rpartition("/")[0]

    def close(self) -> None:
        """Close all directories but the root, which is closed with this object."""
        with self._lock:
            self._known.clear()
