"""Which files of a compacted topic are cleaned: pure functions.

A topic with ``cleanup.policy=compact`` keeps the last record of each key. A file is *dirty* until
it was cleaned once; its records then are the last of their keys, as far as the cleaned files
reach. A tombstone, a record without a value, stays until its file's *delete horizon*, so that
consumers which read the topic now learn of it.

A run of neighbouring files is cleaned from its start. Where something else lies between two runs
(a chunk that was set aside), each is cleaned by itself: more is kept than need be, never less.
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
"""What one job reads keys from at most: they are held in memory. The next job takes the rest."""

NO_TOMBSTONES: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCompactionRules:
    """When a run is worth cleaning, by the topic's configuration."""

    min_lag_ms: int
    """Records younger than this stay as they are."""
    dirty_ratio: float
    """The share of dirty bytes from which cleaning is worth while; 0 takes any."""


def plan_clean(view: StreamView, rules: KeyCompactionRules, now_ms: int) -> RangePlan | None:
    """The lowest run that is worth a job; None where none is."""
    for run in _runs(view):
        # Older values may lie below a run that does not begin where the log does.
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
    """How many files of a run are taken: up to the last that has something to be cleaned."""
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
    """Whether the tombstones of a cleaned file may go."""
    return 0 < entry.delete_horizon_ms <= now_ms


def clean_ranges(
    start: int, end: int, entries: Sequence[IndexEntry], file_bytes: int, now_ms: int
) -> list[FileRange]:
    """A job's range cut into files; empty where no entry is left.

    A file whose tombstones wait stays by itself, or they would wait for the horizon of younger
    ones again and again; unless that makes too many files.
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
