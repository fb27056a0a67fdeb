"""Which small files of a table are rewritten into a large one: a pure function.

A group of neighbouring files that together are about as large as one should be becomes one file.
So every rewrite leaves fewer files than it found, and none is taken twice in vain.
"""

from collections.abc import Sequence
from typing import Final

from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.pipeline.compaction.planner import REWRITE, RangePlan, StreamView, cut

FEW: Final = 2
"""So many files at least make a group worth rewriting."""


def plan_rewrite(view: StreamView, file_bytes: int) -> RangePlan | None:
    """The lowest groups that are worth a job, neighbours of each other; None where none is."""
    for run in _runs(view, file_bytes):
        taken: list[IndexEntry] = []
        for group in cut(run, file_bytes):
            if len(group) >= FEW:
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
    """Runs of neighbouring files that are small."""
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
