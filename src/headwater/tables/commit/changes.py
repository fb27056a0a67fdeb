"""Exactly-once changes of a topic's table.

Every function here may be repeated after a crash or an error, by any process and at the same
time as rivals: what landed is found and not done again.
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
    """The files that a settlement put into a table, and those that it took out."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """The files of one job that take the place of others with the same rows."""

    job: str
    inputs: Sequence[str]
    """The keys of the files that go."""
    files: Sequence[DataFile]
    may_be_gone: Collection[str] = ()
    """Those of the inputs that the table may lack: they have no rows, or their records were
    deleted and they were taken out for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """What became of each job."""

    landed: frozenset[str]
    """The table has these jobs' files, by this call or since before."""
    refused: Mapping[str, CommitConflict]
    """The table will never take these jobs' files."""
    snapshot_id: int | None
    """The snapshot that this call made; None where there was nothing to do."""


def append_files(target: TopicTable, appends: Sequence[Append]) -> CommitOutcome:
    """Append the files of jobs of many streams in one snapshot, each range once and in order.

    A job without any file moves its stream's watermark too. Raises ``CatalogUnavailable``,
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
    """Replace files by others with the same rows, in one snapshot.

    A job is done where its inputs are live and no output is; it counts as landed where it is the
    other way round, or where no input is left that had to be there, and is refused where none of
    these holds. Raises as ``append_files``.
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
                    f"job {one.job}: {sum(inputs)} of {len(inputs)} files to replace are in the "
                    f"table, and {sum(outputs)} of their {len(outputs)} replacements"
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
    """What a table is to hold after a restore."""

    files: Mapping[str, DataFile | None]
    """By key: the table's files. Those that it may lack have their statistics."""
    copied_jobs: Collection[str] = ()
    """The jobs whose segments are in the log: the table keeps the copies that they brought."""
    watermarks: Mapping[int, int]


def has_table(target: TopicTable) -> bool:
    """Whether the topic's table is in the catalog; what has its name may be another's."""
    with catalog_errors(f"table {dotted(target.name)}"):
        try:
            found = target.catalog.load_table(target.name)
        except NoSuchTableError:
            return False
    return found.properties.get(TOPIC_ID) == target.owner.topic_id


def is_settled(target: TopicTable) -> bool:
    """Whether a table is of the cluster's restore epoch."""
    return epoch_of(load_table(target)) >= target.owner.epoch


def missing_files(target: TopicTable, keys: Collection[str]) -> list[str]:
    """Those of the keys that the table lacks. Raises as ``append_files``."""
    table = load_table(target)
    with catalog_errors(f"table {dotted(target.name)}"):
        live = live_files(table, keys, objects_url=target.objects_url)
    return [key for key in keys if key not in live]


def settle_files(target: TopicTable, settlement: Settlement) -> Settled:
    """Set a table to what the log holds, in one snapshot, once in a restore epoch.

    Files that the log does not have leave the table, those that it has come in, and the
    watermarks are the log's. Raises as ``append_files``.
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
    """The restore epoch that a table's files and watermarks are of."""
    return int(table.properties.get(EPOCH, "0"))


def remove_files(target: TopicTable, keys: Sequence[str]) -> frozenset[str]:
    """Take files that lie below the log's start out of the table; returns those that it had.

    A file that is not in the table is no error. Raises as ``append_files``.
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
    """Load, decide, commit; again from the start where a rival was faster."""
    name = dotted(target.name)
    for pause in islice(BACKOFF.pauses(target.random), ATTEMPTS):
        table = load_table(target)
        check_history(table, name)
        if not any_epoch and epoch_of(table) != target.owner.epoch:
            raise TableMismatch(
                f"table {name} is of restore epoch {epoch_of(table)} and the cluster of "
                f"{target.owner.epoch}: headwater table maintain sets it to what the log holds"
            )
        with catalog_errors(f"table {name}"), contextlib.suppress(FileNotFoundError):
            # A rival's expiry deletes manifests that this look at the table still needs.
            change, result = decide(table)
            if change is None or try_change(table, change):
                return result
        target.sleep(pause)
    raise CatalogUnavailable(f"table {name}: rivals committed {ATTEMPTS} times before us")


def _entry(target: TopicTable, table: "Table", file: DataFile) -> "IcebergFile":
    return iceberg_file(
        file.stats,
        location=object_location(target.objects_url, file.key),
        size=file.size,
        spec_id=table.metadata.default_spec_id,
        sort_order_id=table.metadata.default_sort_order_id,
    )
