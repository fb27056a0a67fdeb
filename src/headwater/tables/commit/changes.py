"""Exactly-once changes of a topic's table.

Every function can be repeated after a crash or an error, by any process and concurrently. A change
that has already landed is recognized and not made again.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from pyiceberg.exceptions import NoSuchTableError

from headwater.errors import CatalogUnavailable, CommitConflict, TableMismatch
from headwater.log.jobs.jobs import DataFile, parse_file_key
from headwater.retry import Backoff
from headwater.tables.catalog.errors import catalog_errors
from headwater.tables.commit.live_files import every_live_file, live_files
from headwater.tables.commit.snapshots import SnapshotChange, check_history, snapshot_id, try_change
from headwater.tables.commit.statistics import iceberg_file
from headwater.tables.commit.watermarks import Append, plan_appends, watermark_property
from headwater.tables.locations import object_key, object_location
from headwater.tables.names import dotted
from headwater.tables.topic_tables import EPOCH, TOPIC_ID, TopicTable, load_table

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.table import Table

Result = TypeVar("Result")

ATTEMPTS: Final = 20
BACKOFF: Final = Backoff(first=0.01, longest=1.0)


@dataclass(frozen=True, slots=True)
class Settled:
    """The files that a settlement added to a table, and the files that it removed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The files of one job, which replace others."""

    job: str
    inputs: Sequence[str]
    """Keys of the replaced files."""
    files: Sequence[DataFile]
    may_be_gone: Collection[str] = ()
    """Inputs that the table may lack: they have no rows, or were removed because their records
    were deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """The outcome of a commit for each job."""

    landed: frozenset[str]
    """Jobs whose files are in the table, by this call or an earlier one."""
    refused: Mapping[str, CommitConflict]
    """Jobs whose files the table will never accept, and why."""
    snapshot_id: int | None
    """The table snapshot of this call; None if there was nothing to do."""


def append_files(target: TopicTable, appends: Sequence[Append]) -> CommitOutcome:
    """Append the files of jobs of many streams in one snapshot, each range once and in order.

    A job without files also moves its stream's watermark. Raises ``CatalogUnavailable``,
    ``StorageFull`` or ``TableMismatch``.
    """

    def decide(table: "Table") -> tuple[SnapshotChange | None, CommitOutcome]:
        plan = plan_appends(appends, table.properties)
        landed = frozenset([*plan.landed, *(append.job for append in plan.fresh)])
        if not plan.fresh:
            return None, CommitOutcome(landed=landed, refused=plan.refused, snapshot_id=None)
        commit = "append:" + ",".join(sorted(append.job for append in plan.fresh))
        change = SnapshotChange(
            commit=commit,
            added=[_entry(target, table, file) for one in plan.fresh for file in one.files],
            properties={
                watermark_property(stream): str(mark) for stream, mark in plan.watermarks.items()
            },
        )
        return change, CommitOutcome(
            landed=landed, refused=plan.refused, snapshot_id=snapshot_id(commit)
        )

    return _change(target, decide)


def rewrite_files(target: TopicTable, rewrites: Sequence[Rewrite]) -> CommitOutcome:
    """Replace files in one snapshot.

    A job is committed if its inputs are live and its outputs are not. It has already landed if its
    outputs are live and its inputs are not, or if no required input is left. Otherwise it is
    refused. Raises as ``append_files``.
    """

    def decide(table: "Table") -> tuple[SnapshotChange | None, CommitOutcome]:
        wanted = {key for one in rewrites for key in one.inputs}
        wanted |= {file.key for one in rewrites for file in one.files}
        live = live_files(table, wanted, objects_url=target.objects_url)
        landed, fresh, refused = [], [], {}
        for one in rewrites:
            inputs = [key in live for key in one.inputs]
            needed = [key in live for key in one.inputs if key not in one.may_be_gone]
            outputs = [file.key in live for file in one.files]
            if all(needed) and any(inputs) and not any(outputs):
                fresh.append(one)
            elif not any(inputs) and (all(outputs) or not needed):
                landed.append(one.job)
            else:
                refused[one.job] = CommitConflict(
                    f"job {one.job}: the table has {sum(inputs)} of {len(inputs)} files to replace "
                    f"and {sum(outputs)} of their {len(outputs)} replacements"
                )
        done = frozenset([*landed, *(one.job for one in fresh)])
        if not fresh:
            return None, CommitOutcome(landed=done, refused=refused, snapshot_id=None)
        commit = "rewrite:" + ",".join(sorted(one.job for one in fresh))
        change = SnapshotChange(
            commit=commit,
            added=[_entry(target, table, file) for one in fresh for file in one.files],
            removed=[live[key] for one in fresh for key in one.inputs if key in live],
            properties={},
        )
        return change, CommitOutcome(landed=done, refused=refused, snapshot_id=snapshot_id(commit))

    return _change(target, decide)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The content that a table gets after a restore."""

    files: Mapping[str, DataFile | None]
    """By key: the files of the table. A file that may be missing in the table has statistics."""
    copied_jobs: Collection[str] = ()
    """Jobs whose segments are in the log; the table keeps the copies that they wrote."""
    watermarks: Mapping[int, int]


def has_table(target: TopicTable) -> bool:
    """Whether the catalog has the topic's table. A table of that name may be another topic's."""
    with catalog_errors(f"table {dotted(target.name)}"):
        try:
            found = target.catalog.load_table(target.name)
        except NoSuchTableError:
            return False
    return found.properties.get(TOPIC_ID) == target.owner.topic_id


def is_settled(target: TopicTable) -> bool:
    """Whether a table has the cluster's restore epoch."""
    return epoch_of(load_table(target)) >= target.owner.epoch


def missing_files(target: TopicTable, keys: Collection[str]) -> list[str]:
    """The keys that are not in the table. Raises as ``append_files``."""
    table = load_table(target)
    with catalog_errors(f"table {dotted(target.name)}"):
        live = live_files(table, keys, objects_url=target.objects_url)
    return [key for key in keys if key not in live]


def settle_files(target: TopicTable, settlement: Settlement) -> Settled:
    """Set a table to the files and watermarks of the log in one snapshot, once per restore epoch.

    Raises as ``append_files``.
    """

    def decide(table: "Table") -> tuple[SnapshotChange | None, Settled]:
        if epoch_of(table) >= target.owner.epoch:
            return None, Settled()
        there = {
            object_key(target.objects_url, location) or location: file
            for location, file in every_live_file(table).items()
        }
        added = {
            key: file
            for key, file in settlement.files.items()
            if key not in there and file is not None and file.rows
        }
        removed = {
            key: file
            for key, file in there.items()
            if key not in settlement.files and not _is_copy_of(key, settlement.copied_jobs)
        }
        change = SnapshotChange(
            commit=f"restore:{target.owner.epoch}:{target.owner.topic_id}",
            added=[_entry(target, table, file) for file in added.values()],
            removed=list(removed.values()),
            properties={
                EPOCH: str(target.owner.epoch),
                **{
                    watermark_property(stream): str(mark)
                    for stream, mark in settlement.watermarks.items()
                },
            },
        )
        return change, Settled(tuple(sorted(added)), tuple(sorted(removed)))

    return _change(target, decide, any_epoch=True)


def _is_copy_of(key: str, jobs: Collection[str]) -> bool:
    name = parse_file_key(key)
    return name is not None and name.is_copy and name.job in jobs


def epoch_of(table: "Table") -> int:
    """The restore epoch of a table's files and watermarks."""
    return int(table.properties.get(EPOCH, "0"))


def remove_files(target: TopicTable, keys: Sequence[str]) -> frozenset[str]:
    """Remove files below the log start from the table; returns the files that it had.

    A file that is not in the table is not an error. Raises as ``append_files``.
    """

    def decide(table: "Table") -> tuple[SnapshotChange | None, frozenset[str]]:
        live = live_files(table, set(keys), objects_url=target.objects_url)
        if not live:
            return None, frozenset()
        current = table.metadata.current_snapshot_id
        change = SnapshotChange(
            commit=f"remove:{current}:" + ",".join(sorted(live)),
            removed=list(live.values()),
            properties={},
        )
        return change, frozenset(live)

    return _change(target, decide)


def _change(
    target: TopicTable,
    decide: "Callable[[Table], tuple[SnapshotChange | None, Result]]",
    *,
    any_epoch: bool = False,
) -> Result:
    """Load, decide and commit. Repeat if another process committed in between."""
    name = dotted(target.name)
    for pause in islice(BACKOFF.pauses(target.random), ATTEMPTS):
        table = load_table(target)
        check_history(table, name)
        if not any_epoch and epoch_of(table) != target.owner.epoch:
            raise TableMismatch(
                f"table {name} has restore epoch {epoch_of(table)}, and the cluster has "
                f"{target.owner.epoch}; run headwater table maintain to settle it"
            )
        with catalog_errors(f"table {name}"), contextlib.suppress(FileNotFoundError):
            # A concurrent expiry may delete manifests that ``decide`` reads.
            change, result = decide(table)
            if change is None or try_change(table, change):
                return result
        target.sleep(pause)
    raise CatalogUnavailable(
        f"table {name}: other processes committed before each of {ATTEMPTS} attempts"
    )


def _entry(target: TopicTable, table: "Table", file: DataFile) -> "IcebergFile":
    return iceberg_file(
        file.stats,
        location=object_location(target.objects_url, file.key),
        size=file.size,
        spec_id=table.metadata.default_spec_id,
        sort_order_id=table.metadata.default_sort_order_id,
    )
