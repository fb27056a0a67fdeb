"""Directories whose names survive a power cut."""

import os
from pathlib import Path


def make_durable(directory: Path) -> None:
    """Create a directory and those above it where they are missing, durably.

    Those that exist are synced too, since another process may have created them a moment ago,
    but only where that is allowed: the ones far above may belong to someone else.
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
    """Make the names in a directory durable."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
