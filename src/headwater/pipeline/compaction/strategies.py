"""Strategies of a run: which topics, index entries and ranges it plans."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headwater.log.formats.metadata_values import INLINE, PARQUET, WAL
from headwater.pipeline.compaction.planner import (
    BOTH,
    COMPACT,
    SEGMENTS,
    RangePlan,
    Rules,
    StreamView,
    plan_range,
)
from headwater.pipeline.metadata_reads import StoredTopic
from headwater.pipeline.upkeep.key_compaction_plan import KeyCompactionRules, plan_clean
from headwater.pipeline.upkeep.rewrite_plan import plan_rewrite
from headwater.topic_config.topic import compaction_target, is_compacted, number, text
from headwater.topic_config.values import fraction

TABLE: Final = "parquet"


@dataclass(frozen=True, slots=True)
class Strategy:
    """One kind of planning."""

    kinds: tuple[int, ...]
    """Kinds of index entries that the plan reads."""
    is_for: Callable[[StoredTopic], bool]
    plan: Callable[[StoredTopic, StreamView, int], RangePlan | None]
    """The next job of a stream, given the time; None if there is none."""


_JOBS: Final = {TABLE: COMPACT, "segment": SEGMENTS, "both": BOTH}
"""The kind of job for each value of ``headwater.compact-to``."""


def compacting(rules: Rules) -> Strategy:
    """Compact chunks into table files or segments."""

    def plan(topic: StoredTopic, view: StreamView, now_ms: int) -> RangePlan | None:
        found = plan_range(view, rules, now_ms)
        kind = _JOBS[compaction_target(topic.configs)]
        return None if found is None else replace(found, kind=kind)

    return Strategy(
        kinds=(INLINE, WAL),
        is_for=lambda topic: compaction_target(topic.configs) in _JOBS,
        plan=plan,
    )


def cleaning(*, at_once: bool) -> Strategy:
    """Run key compaction; with ``at_once`` even below ``min.cleanable.dirty.ratio``."""

    def plan(topic: StoredTopic, view: StreamView, now_ms: int) -> RangePlan | None:
        ratio = fraction(text(topic.configs, "min.cleanable.dirty.ratio"))
        rules = KeyCompactionRules(
            min_lag_ms=number(topic.configs, "min.compaction.lag.ms"),
            dirty_ratio=0.0 if at_once else ratio,
        )
        return plan_clean(view, rules, now_ms)

    return Strategy(
        kinds=(PARQUET,),
        is_for=lambda topic: _is_table(topic) and is_compacted(topic.configs),
        plan=plan,
    )


def rewriting(file_bytes: int) -> Strategy:
    """Rewrite small files. Key compaction does this for topics with ``cleanup.policy=compact``."""
    return Strategy(
        kinds=(PARQUET,),
        is_for=lambda topic: _is_table(topic) and not is_compacted(topic.configs),
        plan=lambda _topic, view, _now_ms: plan_rewrite(view, file_bytes),
    )


def _is_table(topic: StoredTopic) -> bool:
    return compaction_target(topic.configs) == TABLE
