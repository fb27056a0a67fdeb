"""Keeping a table's history short: old snapshots go, and with them the metadata they alone used.

Data files are not touched here: ``live_files.unreferenced`` says which of them no snapshot needs.
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
    """What an expiry did."""

    expired: tuple[int, ...] = ()
    """Snapshots that the table has no more."""
    deleted: tuple[str, ...] = ()
    """Locations of manifests and manifest lists that went with them."""


def expire_snapshots(target: TopicTable, settings: TableSettings, *, now_ms: int) -> Expiry:
    """Expire the snapshots that the settings do not keep, and delete the metadata of theirs.

    Where a rival commits in between nothing is done; the next call will. Branches and tags that
    users made keep what they point at. Raises ``CatalogUnavailable`` or ``TableMismatch``.
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
            return Expiry()  # a rival was faster, with a commit or with this very expiry
        _delete(table, garbage)
    return Expiry(expired=tuple(gone), deleted=tuple(garbage))


def _remove_snapshots(table: "Table", gone: Sequence[int]) -> None:
    """Raises ``CommitFailedException`` where the table has changed since it was loaded."""
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
        # The answer where a snapshot is not there; no requirement can ask for that before.
        there = {one.snapshot_id for one in table.catalog.load_table(table.name()).snapshots()}
        if there.issuperset(gone):
            raise
        raise CommitFailedException("expired by a rival") from error


def plan_expiry(
    line: Sequence[tuple[int, int]],
    protected: Collection[int],
    settings: TableSettings,
    *,
    now_ms: int,
) -> list[int]:
    """The snapshots to expire, given (id, time) from the current one back.

    The newest ``keep_snapshots`` stay; the rest goes by age, or where there are too many.
    """
    return [
        number
        for place, (number, time_ms) in enumerate(line)
        if place >= settings.keep_snapshots
        and number not in protected
        and (place >= settings.max_snapshots or now_ms - time_ms > settings.snapshot_age_ms)
    ]


def _metadata_of(table: "Table", line: "Sequence[Snapshot]", gone: set[int]) -> list[str]:
    """The manifest lists of snapshots that go, and the manifests that are in no other's.

    A manifest that left the line does not come back to it. So of the kept ones in the line only
    those count that are not newer than the first after the newest that goes.
    """
    newest = next(place for place, one in enumerate(line) if one.snapshot_id in gone)
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

    A process that died in the middle of a commit leaves some. ``older_than_ms`` is longer than
    any commit takes. Returns the locations.
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
        # Loaded after the files were listed: what was committed in between is in use.
        table = load_table(target)
        used = _names_in_use(table)
        if _name(table.metadata_location) not in {info.base_name for info in listed}:
            return []  # the table's metadata is kept somewhere else, and so is none of this known
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

    Names and not locations, because catalogs write one location in several ways (``file:/`` and
    ``file:///``, ``s3`` and ``s3a``); a name has a random part and is never used twice.
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
            _log.warning("%s could not be deleted: %s; no table refers to it", location, error)
