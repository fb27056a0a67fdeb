"""Planning key compaction: which files of a compacted topic are cleaned. Pure functions.

A topic with ``cleanup.policy=compact`` keeps the last record of each key. A file is *dirty* until
it was cleaned once. Among the cleaned files each key occurs once. A tombstone (a record without a
value) stays until its file's *delete horizon*, so that consumers can read it.

A run of neighbouring files is cleaned from its start. If another entry, such as a chunk that was
set aside, separates two runs, each run is cleaned separately, and a key may remain in both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.pipeline.compaction.planner import (
    CLEAN,
    MAX_FILES,
    FileRange,
    RangePlan,
    StreamView,
    cut,
)

DIRTY_BYTES: Final = 2**30
"""Maximum dirty bytes per job, because all keys of dirty files are held in memory."""

NO_TOMBSTONES: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCompactionRules:
    """When a run is cleaned, by the topic's configuration."""

    min_lag_ms: int
    """Records younger than this are not cleaned."""
    dirty_ratio: float
    """Minimum fraction of dirty bytes; 0 cleans any."""


def plan_clean(view: StreamView, rules: KeyCompactionRules, now_ms: int) -> RangePlan | None:
    """The lowest run to clean; None if there is none."""
    for run in _runs(view):
        # Older values may lie below a run that does not begin at the log start.
        drops = run[0].start <= view.log_start
        taken = run[: _reach(run, rules, now_ms, drops_tombstones=drops)]
        if taken:
            return RangePlan(
                start=taken[0].start,
                end=taken[-1].end,
                size=sum(entry.length for entry in taken),
                oldest_ms=taken[0].created_ms,
                kind=CLEAN,
                inputs=tuple(entry.key for entry in taken),
            )
    return None


def _runs(view: StreamView) -> list[list[IndexEntry]]:
    runs: list[list[IndexEntry]] = []
    for entry in view.entries:
        if entry.kind != PARQUET or not view.log_start < entry.end <= view.last_stable:
            continue
        if runs and runs[-1][-1].end == entry.start:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return runs


def _reach(
    run: Sequence[IndexEntry], rules: KeyCompactionRules, now_ms: int, *, drops_tombstones: bool
) -> int:
    """The number of files to clean: up to the last one that has something to clean."""
    dirty = clean = reach = due = 0
    for number, entry in enumerate(run, 1):
        if entry.delete_horizon_ms:
            clean += entry.length
            if drops_tombstones and is_due(entry, now_ms):
                due = number
            continue
        if entry.max_timestamp > now_ms - rules.min_lag_ms:
            break
        if dirty and dirty + entry.length > DIRTY_BYTES:
            break
        dirty += entry.length
        reach = number
    worth = dirty and dirty >= rules.dirty_ratio * (dirty + clean)
    return max(reach if worth else 0, due)


def is_due(entry: IndexEntry, now_ms: int) -> bool:
    """Whether the tombstones of a cleaned file can be removed."""
    return 0 < entry.delete_horizon_ms <= now_ms


def clean_ranges(
    start: int, end: int, entries: Sequence[IndexEntry], file_bytes: int, now_ms: int
) -> list[FileRange]:
    """Split a job's range into files; empty if no entry is left.

    A file with tombstones before their horizon stays separate, unless that makes too many files.
    Joined with younger files, its tombstones would get a later horizon each time.
    """
    groups: list[list[IndexEntry]] = []
    for some in _apart(entries, now_ms):
        groups += cut(some, file_bytes)
    if len(groups) > MAX_FILES:
        groups = cut(entries, max(file_bytes, sum(e.length for e in entries) // MAX_FILES * 2))
        groups[-1] += entries[sum(map(len, groups)) :]
    bounds = [start, *(group[0].start for group in groups[1:]), end]
    return [
        FileRange(low, high, group)
        for low, high, group in zip(bounds, bounds[1:], groups, strict=False)
    ]


def _apart(entries: Sequence[IndexEntry], now_ms: int) -> Iterator[list[IndexEntry]]:
    some: list[IndexEntry] = []
    for entry in entries:
        if entry.delete_horizon_ms > now_ms:
            yield from ([some] if some else [])
            yield [entry]
            some = []
        else:
            some.append(entry)
    if some:
        yield some
