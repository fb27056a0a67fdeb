"""Deletes the files below a dropped table's own location."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import read_manifest_list

from headwater.tables.rest.errors import Forbidden, Unavailable
from headwater.tables.rest.guard import Guard, is_below, metadata_places

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table

MAX_WAITING: Final = 16
"""Tables that wait until their files are deleted."""
WAIT_S: Final = 5.0
"""How long a request waits for its purge."""
PURGE_S: Final = 600.0
"""How long one purge may take. Files that are left then stay."""
MAX_METADATA_BYTES: Final = 64 * 1024 * 1024
"""A larger manifest or manifest list is not read."""

logger = logging.getLogger(__name__)


class Purges:
    """Deletes files on one thread, one table after another, so that requests do not wait long."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._thread = ThreadPoolExecutor(1, "headwater-purge")
        self._room = BoundedSemaphore(MAX_WAITING)

    def reserve(self) -> None:
        """Reserve a place, for ``purge`` or ``release``. Raises ``Unavailable`` if none is free."""
        if not self._room.acquire(blocking=False):
            raise Unavailable(f"the files of {MAX_WAITING} tables are being deleted; try later")

    def release(self) -> None:
        self._room.release()

    def purge(self, table: "Table") -> None:
        """Delete the files of a dropped table. Returns at the end, or after ``WAIT_S``."""
        done = self._thread.submit(purge, table, self._guard)
        done.add_done_callback(lambda _: self.release())
        with suppress(TimeoutError):
            done.result(WAIT_S)

    def close(self) -> None:
        """Stop. Tables that wait keep their files."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def purge(table: "Table", guard: Guard) -> None:
    """Delete the files that the table's metadata names below the table's own location.

    A table may also name files of other tables, such as a topic's, that were added in place. They
    stay, and no manifest outside of the table's locations is opened. Files that cannot be deleted
    stay too, because the table is already dropped.
    """
    left, deadline = 0, time.monotonic() + PURGE_S
    for location in _files(table, deadline):
        try:
            if is_below(location, table.location()) and time.monotonic() < deadline:
                table.io.delete(guard.check_location(location))
        except (OSError, Forbidden):
            left += 1
    if left or time.monotonic() >= deadline:
        logger.warning(
            "Files of a purged table stay", extra={"table": ".".join(table.name()), "files": left}
        )


def _files(table: "Table", deadline: float) -> list[str]:
    """All files that the snapshots name, with manifests and metadata."""
    metadata = table.metadata
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    found |= {statistics.statistics_path for statistics in metadata.statistics}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        try:
            for manifest in read_manifest_list(_own(table, snapshot.manifest_list)):
                if time.monotonic() > deadline:
                    return sorted(found)
                if manifest.manifest_path in found:
                    continue
                _own(table, manifest.manifest_path)
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
                found |= {entry.data_file.file_path for entry in entries}
        except (OSError, ValueError):
            continue  # an earlier purge has deleted these
    return sorted(found)


def _own(table: "Table", location: str) -> "InputFile":
    """A manifest or manifest list. Raises ``ValueError`` if it is not the table's, or too large."""
    places = metadata_places(table.location(), table.properties)
    if not any(is_below(location, place) for place in places):
        raise ValueError(f"{location} is not the table's own")
    file = table.io.new_input(location)
    if len(file) > MAX_METADATA_BYTES:
        raise ValueError(f"{location} has {len(file)} bytes")
    return file
