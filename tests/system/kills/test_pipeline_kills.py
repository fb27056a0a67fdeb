"""Drivers of the pipeline die before and after every single write, and rivals at random ones."""

import asyncio
import itertools
import random
import signal

import pytest

from tests.support.pipeline import tally
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.drivers import MAINTAIN, Drive, drive
from tests.support.pipeline.followers import followed
from tests.support.pipeline.readings.kinds import (
    KINDS,
    PARTITIONS,
    JobKind,
    Subject,
    nothing_is_left,
)
from tests.support.pipeline.sizes import rounds
from tests.support.waiting import eventually

RIVALS = 3
STORM = 8
"""How often rivals set out in one round."""
EARLY = 60
"""Most jobs write no more often than this."""

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def order(subject: Subject, method: str, touch: int) -> Drive:
    return Drive(
        data=subject.cluster.data, method=method, topics=(subject.topic,), point=str(touch)
    )


@every_kind
async def test_a_driver_killed_before_or_after_any_write_is_followed_by_another(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    with followed(cluster.bootstrap, {subject.topic: PARTITIONS}, gaps=kind.keeps_last):
        for touch in itertools.count(1):
            before = await subject.prepare(30)
            ended = await drive(order(subject, kind.method, touch))
            assert ended in (0, -signal.SIGKILL), touch
            await subject.finish()
            await subject.check(before)
            if ended == 0:
                break
    await nothing_is_left(cluster, subject.topic)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.has_table], ids=lambda kind: kind.name
)
async def test_an_upkeep_killed_before_or_after_any_write_is_followed_by_another(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    for touch in itertools.count(1):
        rows = await subject.prepare(30)
        await subject.finish()
        there = len(await cluster.entries(subject.topic))
        end = max(row.offset for row in rows if row.partition == 0) + 1
        cluster.delete_records(subject.topic, 0, end)

        async def trimmed(there: int = there) -> bool:
            return len(await cluster.entries(subject.topic)) < there

        await eventually(trimmed)
        ended = await drive(order(subject, MAINTAIN, touch))
        assert ended in (0, -signal.SIGKILL), touch
        await subject.check_agreement()
        if ended == 0:
            break
    assert touch > 1
    await nothing_is_left(cluster, subject.topic)


@every_kind
async def test_rivals_that_die_at_random_while_records_come_and_go(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    for seed in rounds():
        rng = random.Random(f"{kind.name}-{seed}")
        subject = Subject(cluster, kind)
        await subject.prepare()
        for _ in range(STORM):
            rivals = [order(subject, kind.method, rng.randrange(1, EARLY)) for _ in range(RIVALS)]
            setting_out = asyncio.gather(*(drive(rival) for rival in rivals))
            await asyncio.to_thread(subject.produce, rng.randrange(1, 40))
            if rng.random() < 0.5:
                await asyncio.to_thread(delete_some, subject, rng)
            assert set(await setting_out) <= {0, -signal.SIGKILL}
            await subject.finish()
            await subject.check_agreement()
        await nothing_is_left(cluster, subject.topic)


def delete_some(subject: Subject, rng: random.Random) -> None:
    rows = subject.cluster.consume(subject.topic)
    if rows:
        row = rng.choice(rows)
        subject.cluster.delete_records(subject.topic, row.partition, row.offset)
        tally.faults.add("DeleteRecords among rivals")
