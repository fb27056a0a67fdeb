"""Planning rewrites: which small files of a table are joined. A pure function.

Neighbouring files that together are about ``file_bytes`` large become one file, so every rewrite
reduces the number of files.
"""

from collections.abc import Sequence
from typing import Final

from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.pipeline.compaction.planner import REWRITE, RangePlan, StreamView, cut

MIN_FILES: Final = 2
"""Minimum files of a group."""


def plan_rewrite(view: StreamView, file_bytes: int) -> RangePlan | None:
    """The lowest neighbouring groups to rewrite; None if there are none."""
    for run in _runs(view, file_bytes):
        taken: list[IndexEntry] = []
        for group in cut(run, file_bytes):
            if len(group) >= MIN_FILES:
                taken += group
            elif taken:
                break
        if taken:
            return RangePlan(
                start=taken[0].start,
                end=taken[-1].end,
                size=sum(entry.length for entry in taken),
                oldest_ms=taken[0].created_ms,
                kind=REWRITE,
                inputs=tuple(entry.key for entry in taken),
            )
    return None


def _runs(view: StreamView, file_bytes: int) -> Sequence[list[IndexEntry]]:
    """Runs of small neighbouring files."""
    runs: list[list[IndexEntry]] = []
    for entry in view.entries:
        if entry.kind != PARQUET or entry.length * 4 >= file_bytes * 3:
            continue
        if entry.end <= view.log_start or entry.end > view.last_stable:
            continue
        if runs and runs[-1][-1].end == entry.start:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return runs
