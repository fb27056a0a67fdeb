"""Directories whose entries survive a power cut.

A file's own fsync does not make its name durable: that takes an fsync of the directory that
holds it, and of every directory above that was created on the way.
"""

import contextlib
import errno
import os
import threading
from pathlib import Path

from cachetools import LRUCache


class Descriptor:
    """An open file descriptor that closes with its last holder.

    So a cache may drop one while another thread is still using it.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class DurableDirectories:
    """The directories under a root that are known to be durable, each held open.

    They are used through their descriptors only. A directory that another process removed and
    created again is then not mistaken for the one that was made durable: to link into a
    removed one fails with ENOENT, and the caller calls ``forget`` and starts over.

    Calls come from several threads.
    """

    def __init__(self, root: Path, *, capacity: int = 256) -> None:
        self._root = Descriptor(os.open(root, os.O_RDONLY | os.O_DIRECTORY))
        self._known: LRUCache[str, Descriptor] = LRUCache(capacity)
        self._failed: set[str] = set()
        self._lock = threading.Lock()
        self._syncing = threading.Lock()

    def open(self, directory: str) -> Descriptor:
        """The directory, created where it is missing, itself and all above it durable.

        The first use of each costs one fsync of the one above, even where it exists already:
        the process that created it may not have come to its fsync.
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
        # Opened before the fsync: what is durable then is what the descriptor stands for.
        opened = Descriptor(os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent.number))
        self.sync(above, parent)
        with self._lock:
            self._known[directory] = opened
        return opened

    def sync(self, directory: str, opened: Descriptor) -> None:
        """Make the entries of a directory durable.

        After a failure the kernel may have dropped what was not written and would report
        success the next time, so a directory whose fsync failed once is refused for good.
        """
        # One at a time: the kernel tells an error to the first that asks, and to no other.
        with self._syncing:
            if directory in self._failed:
                raise OSError(errno.EIO, "an earlier fsync of this directory failed")
            try:
                os.fsync(opened.number)
            except OSError:
                self._failed.add(directory)
                raise

    def forget(self, directory: str) -> None:
        """Look at a directory and those above it afresh at their next use."""
        with self._lock:
            while directory:
                self._known.pop(directory, None)
                directory = directory.rpartition("/")[0]

    def close(self) -> None:
        """Let go of every directory but the root, which goes with this object."""
        with self._lock:
            self._known.clear()
