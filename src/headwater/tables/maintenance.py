"""Expiry of table snapshots, and deletion of metadata that only these used.

Data files are not deleted here; ``live_files.unreferenced`` finds unneeded ones.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
)

from headwater.tables.catalog.errors import catalog_errors
from headwater.tables.commit.snapshots import commit_updates
from headwater.tables.locations import table_location
from headwater.tables.names import dotted
from headwater.tables.settings import TableSettings
from headwater.tables.topic_tables import TopicTable, load_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The result of an expiry."""

    expired: tuple[int, ...] = ()
    """Ids of expired snapshots."""
    deleted: tuple[str, ...] = ()
    """Locations of deleted manifests and manifest lists."""


def expire_snapshots(target: TopicTable, settings: TableSettings, *, now_ms: int) -> Expiry:
    """Expire the snapshots that the settings do not keep, and delete their metadata.

    If another process commits in between, nothing is done until the next call. Users' branches and
    tags protect their snapshots. Raises ``CatalogUnavailable`` or ``TableMismatch``.
    """
    table = load_table(target)
    metadata = table.metadata
    line = list(ancestors_of(metadata.current_snapshot(), metadata))
    protected = {reference.snapshot_id for reference in metadata.refs.values()}
    gone = plan_expiry(
        [(one.snapshot_id, one.timestamp_ms) for one in line], protected, settings, now_ms=now_ms
    )
    if not gone:
        return Expiry()
    with catalog_errors(f"table {dotted(target.name)}"):
        try:
            garbage = _metadata_of(table, line, set(gone))
            _remove_snapshots(table, gone)
        except (CommitFailedException, FileNotFoundError):
            return Expiry()  # another process committed or expired first
        _delete(table, garbage)
    return Expiry(expired=tuple(gone), deleted=tuple(garbage))


def _remove_snapshots(table: "Table", gone: Sequence[int]) -> None:
    """Raises ``CommitFailedException`` if the table has changed since it was loaded."""
    try:
        commit_updates(
            table,
            (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": gone}),),
            (
                AssertRefSnapshotId.model_validate(
                    {"ref": MAIN_BRANCH, "snapshot-id": table.metadata.current_snapshot_id}
                ),
            ),
        )
    except (ValueError, BadRequestError) as error:
        # Raised if a snapshot does not exist, for which there is no requirement.
        there = {one.snapshot_id for one in table.catalog.load_table(table.name()).snapshots()}
        if there.issuperset(gone):
            raise
        raise CommitFailedException("expired by another process") from error


def plan_expiry(
    line: Sequence[tuple[int, int]],
    protected: Collection[int],
    settings: TableSettings,
    *,
    now_ms: int,
) -> list[int]:
    """The snapshots to expire, given (id, time) of the current one and its ancestors.

    The newest ``keep_snapshots`` stay. Others expire by age, or beyond ``max_snapshots``.
    """
    return [
        number
        for position, (number, time_ms) in enumerate(line)
        if position >= settings.keep_snapshots
        and number not in protected
        and (position >= settings.max_snapshots or now_ms - time_ms > settings.snapshot_age_ms)
    ]


def _metadata_of(table: "Table", line: "Sequence[Snapshot]", gone: set[int]) -> list[str]:
    """The manifest lists of expired snapshots, and the manifests that no kept snapshot uses.

    A manifest that leaves the current line of snapshots does not return to it. So newer snapshots
    of the line need not be read, except the first one after the newest expired snapshot.
    """
    newest = next(position for position, one in enumerate(line) if one.snapshot_id in gone)
    safe = {one.snapshot_id for one in line[: max(newest - 1, 0)]}
    going, kept = [], set()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id in gone:
            going += [snapshot.manifest_list, *_manifests(table, snapshot)]
        elif snapshot.snapshot_id not in safe:
            kept |= {snapshot.manifest_list, *_manifests(table, snapshot)}
    return [location for location in dict.fromkeys(going) if location not in kept]


def delete_orphaned_metadata(target: TopicTable, *, older_than_ms: int, now_ms: int) -> list[str]:
    """Delete metadata that no snapshot and no version of the table refers to.

    A process that dies during a commit leaves such files. ``older_than_ms`` must be longer than any
    commit takes. Returns the locations.
    """
    from pyarrow.fs import FileSelector
    from pyiceberg.io.pyarrow import PyArrowFileIO

    with catalog_errors(f"table {dotted(target.name)}"):
        files = PyArrowFileIO(target.catalog.properties)
        base = f"{table_location(target.objects_url, target.owner.topic_id)}/metadata"
        scheme, netloc, path = PyArrowFileIO.parse_location(base, target.catalog.properties)
        listed: Sequence[Any] = files.fs_by_scheme(scheme, netloc).get_file_info(
            FileSelector(path, allow_not_found=True)
        )
        # Loaded after the listing, so that files of concurrent commits are in use.
        table = load_table(target)
        used = _names_in_use(table)
        if _name(table.metadata_location) not in {info.base_name for info in listed}:
            return []  # the table's metadata is in another directory
        orphans = [
            f"{base}/{info.base_name}"
            for info in listed
            if info.base_name.endswith((".metadata.json", ".avro"))
            and info.base_name not in used
            and now_ms - info.mtime_ns // 10**6 > older_than_ms
        ]
        _delete(table, orphans)
    return orphans


def _names_in_use(table: "Table") -> set[str]:
    """The names of a table's metadata files.

    Names, because catalogs write the same location in several ways (``file:/`` and ``file:///``,
    ``s3`` and ``s3a``). A name has a random part, so it is unique.
    """
    metadata = table.metadata
    used = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        used |= {snapshot.manifest_list, *_manifests(table, snapshot)}
    return {_name(location) for location in used}


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _manifests(table: "Table", snapshot: "Snapshot") -> list[str]:
    return [manifest.manifest_path for manifest in snapshot.manifests(table.io)]


def _delete(table: "Table", locations: Iterable[str]) -> None:
    for location in locations:
        try:
            table.io.delete(location)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning(
                "Cannot delete an unreferenced file", extra={"location": location, "error": error}
            )
