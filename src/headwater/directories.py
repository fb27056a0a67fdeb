"""Durable creation of directories."""

import os
from pathlib import Path


def make_durable(directory: Path) -> None:
    """Create a directory and its missing parents, and sync the names to disk.

    Existing parents are synced, too, because another process may have just created them. Parents
    that may not be synced, because they belong to another user, are skipped.
    """
    if directory == directory.parent:
        return
    make_durable(directory.parent)
    missing = not directory.is_dir()
    if missing:
        directory.mkdir(exist_ok=True)
    try:
        sync_directory(directory.parent)
    except OSError:
        if missing:
            raise


def sync_directory(directory: Path) -> None:
    """Sync a directory, so that the names in it survive a power failure."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
