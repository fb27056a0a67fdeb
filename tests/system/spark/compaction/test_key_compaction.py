"""Topics with ``cleanup.policy=compact`` keep the last record of each key, in log and table."""

import asyncio
import random
import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.pipeline.compaction.planner import CLEAN, StreamView
from headwater.pipeline.compaction.summary import RunSummary
from headwater.pipeline.spark.runner import Runner
from headwater.pipeline.upkeep.key_compaction_plan import (
    KeyCompactionRules,
    clean_ranges,
    plan_clean,
)
from tests.support.pipeline.cluster import PipelineCluster, Row, make_compactor
from tests.system.spark.conftest import SharedSpark

COMPACTED = {"cleanup.policy": "compact"}
NOW = 1_000_000
ANY = KeyCompactionRules(min_lag_ms=0, dirty_ratio=0.0)


def view(*horizons: int, log_start: int = 0, newest: int = 0) -> StreamView:
    """Files of ten offsets and ten bytes each, by their delete horizons."""
    entries = [
        IndexEntry(
            start=number * 10,
            end=number * 10 + 10,
            kind=PARQUET,
            length=10,
            size=0,
            max_timestamp=newest,
            created_ms=0,
            key=f"f{number}",
            delete_horizon_ms=horizon,
        )
        for number, horizon in enumerate(horizons)
    ]
    return StreamView(log_start, 10**9, entries)


def test_dirty_files_and_all_below_them_are_cleaned() -> None:
    plan = plan_clean(view(-1, NOW + 5, 0, 0), ANY, NOW)
    assert plan is not None
    assert (plan.start, plan.end, plan.kind) == (0, 40, CLEAN)


@pytest.mark.parametrize(
    ("stream", "rules"),
    [
        (view(-1, -1, NOW + 5), ANY),
        (view(0, 0, newest=NOW - 10), KeyCompactionRules(min_lag_ms=50, dirty_ratio=0.0)),
        (view(-1, -1, -1, 0), KeyCompactionRules(min_lag_ms=0, dirty_ratio=0.5)),
        (view(), ANY),
    ],
    ids=["clean", "too young", "too little", "none"],
)
def test_what_need_not_be_cleaned_is_left_alone(
    stream: StreamView, rules: KeyCompactionRules
) -> None:
    assert plan_clean(stream, rules, NOW) is None


def test_due_tombstones_need_a_job_only_at_the_log_start() -> None:
    plan = plan_clean(view(NOW - 5, -1), ANY, NOW)
    assert plan is not None
    assert plan.end == 10
    above = StreamView(0, 10**9, view(-1, NOW - 5).entries[1:])
    assert plan_clean(above, ANY, NOW) is None


def test_files_whose_tombstones_wait_stay_by_themselves() -> None:
    ranges = clean_ranges(0, 50, view(-1, -1, NOW + 5, 0, 0).entries, 1000, NOW)
    assert [(each.start, each.end) for each in ranges] == [(0, 20), (20, 30), (30, 50)]


async def run(
    cluster: PipelineCluster, topic: str, method: str, runner: Runner | None = None
) -> RunSummary:
    async with cluster.open() as place:
        compactor = make_compactor(place, runner=runner)
        try:
            summary: RunSummary = await getattr(compactor, method)([topic])
        finally:
            compactor.close()
    assert not summary.failures
    return summary


def produce(
    cluster: PipelineCluster, topic: str, records: Sequence[tuple[bytes, bytes | None]]
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1})
    for key, value in records:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0


def changes(seed: int, count: int) -> list[tuple[bytes, bytes | None]]:
    rng = random.Random(seed)
    return [
        (b"k%d" % rng.randrange(40), rng.choice([None, b"v%d" % rng.randrange(10**6)]))
        for _ in range(count)
    ]


def last_of_each(rows: Sequence[Row]) -> list[Row]:
    return sorted({row.key: row for row in rows}.values(), key=lambda row: row.offset)


async def test_the_last_record_of_each_key_stays(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    topic = cluster.create_topic(configs=COMPACTED)
    for seed in range(3):
        produce(cluster, topic, changes(seed, 150))
        before = cluster.consume(topic)
        await run(cluster, topic, "compact")
        await run(cluster, topic, "clean", spark if seed == 0 else None)
        assert cluster.consume(topic) == last_of_each(before)
        assert await cluster.table(topic) == last_of_each(before)
    assert (await run(cluster, topic, "clean")).jobs == 0


async def test_tombstones_go_after_their_retention(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs={**COMPACTED, "delete.retention.ms": "1500"})
    produce(cluster, topic, [(b"a", b"1"), (b"b", b"2"), (b"a", None)])
    await run(cluster, topic, "compact")
    await run(cluster, topic, "clean")
    assert [(row.key, row.value) for row in cluster.consume(topic)] == [(b"b", b"2"), (b"a", None)]
    deadline = time.monotonic() + 30
    while len(await cluster.table(topic)) > 1 and time.monotonic() < deadline:
        await asyncio.sleep(0.3)
        await run(cluster, topic, "clean")
    assert [row.key for row in await cluster.table(topic)] == [b"b"]
    assert [row.key for row in cluster.consume(topic)] == [b"b"]
    assert (await run(cluster, topic, "clean")).jobs == 0


async def test_young_records_stay(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(configs={**COMPACTED, "min.compaction.lag.ms": "3600000"})
    produce(cluster, topic, changes(0, 50))
    await run(cluster, topic, "compact")
    assert (await run(cluster, topic, "clean")).jobs == 0
    assert len(cluster.consume(topic)) == 50


async def test_other_topics_are_left_alone(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic()
    produce(cluster, topic, changes(0, 50))
    await run(cluster, topic, "compact")
    assert (await run(cluster, topic, "clean")).jobs == 0
