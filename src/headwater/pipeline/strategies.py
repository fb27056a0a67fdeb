"""What a run of the pipeline plans: which topics, which of their entries, and which ranges."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headwater.log.formats import INLINE, PARQUET, WAL
from headwater.pipeline.planner import (
    BOTH,
    COMPACT,
    SEGMENTS,
    RangePlan,
    Rules,
    StreamView,
    plan_range,
)
from headwater.pipeline.rewrite import plan_rewrite
from headwater.pipeline.streams import StoredTopic
from headwater.topic_configs import compaction_target

TABLE: Final = "parquet"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One kind of planning."""

    kinds: tuple[int, ...]
    """Of the index entries that it is about."""
    is_for: Callable[[StoredTopic], bool]
    plan: Callable[[StoredTopic, StreamView, int], RangePlan | None]
    """A stream's next job, given the time."""


_JOBS: Final = {TABLE: COMPACT, "segment": SEGMENTS, "both": BOTH}
"""The kind of job by what a topic's ``headwater.compact-to`` says."""


def compacting(rules: Rules) -> Strategy:
    """Chunks become files, of the table or segments."""

    def plan(topic: StoredTopic, view: StreamView, now_ms: int) -> RangePlan | None:
        found = plan_range(view, rules, now_ms)
        kind = _JOBS[compaction_target(topic.configs)]
        return None if found is None else replace(found, kind=kind)

    return Strategy(
        kinds=(INLINE, WAL),
        is_for=lambda topic: compaction_target(topic.configs) in _JOBS,
        plan=plan,
    )


def rewriting(file_bytes: int) -> Strategy:
    """Small files become large ones."""
    return Strategy(
        kinds=(PARQUET,),
        is_for=lambda topic: compaction_target(topic.configs) == TABLE,
        plan=lambda _topic, view, _now_ms: plan_rewrite(view, file_bytes),
    )
