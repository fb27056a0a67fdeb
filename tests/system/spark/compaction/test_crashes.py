"""Drivers and workers are killed in jobs of every kind; others take the jobs up.

Consumers read all the time. At the end log and table are equal, and nothing is left over.
"""

import asyncio
import signal
from pathlib import Path

import pytest

from headwater.errors import StoreUnavailable
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.pipeline.deadly import MOMENTS, WORKER, DeadlyRunner
from tests.support.pipeline.drivers import CLAIM_MS, FORGETFUL, Drive, drive
from tests.support.pipeline.followers import followed
from tests.support.pipeline.readings.kinds import (
    COMPACT,
    COPIES,
    KINDS,
    PARTITIONS,
    JobKind,
    Subject,
    nothing_is_left,
)
from tests.support.pipeline.sizes import some
from tests.system.spark.conftest import SharedSpark


async def kill_at(point: str, subject: Subject) -> None:
    """Kill a driver there, have another finish its job while records come in, and compare."""
    before = await subject.prepare()
    order = Drive(
        data=subject.cluster.data, method=subject.kind.method, topics=(subject.topic,), point=point
    )
    assert await drive(order) == -signal.SIGKILL, point
    if not subject.kind.keeps_last:
        await asyncio.to_thread(subject.produce, 10)
    await subject.finish()
    await subject.check(before)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_driver_killed_at_any_point_is_followed_by_another(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    with followed(cluster.bootstrap, {subject.topic: PARTITIONS}, gaps=kind.keeps_last):
        for point in kind.points:
            await kill_at(point, subject)
    await nothing_is_left(cluster, subject.topic)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_worker_of_spark_costs_no_more_than_another_run(
    cluster: PipelineCluster, spark: SharedSpark, tmp_path: Path, moment: str
) -> None:
    subjects = [Subject(cluster, kind) for kind in some(KINDS, (COMPACT, COPIES))]
    for subject in subjects:
        before = await subject.prepare()
        deadly = DeadlyRunner(spark.session, moment, WORKER, tmp_path / subject.topic)
        async with cluster.open(FORGETFUL) as place:
            compactor = make_compactor(place, runner=deadly, claim_ms=CLAIM_MS)
            # Spark's local mode gives a task one chance.
            with pytest.raises(StoreUnavailable, match="Python worker exited unexpectedly"):
                await getattr(compactor, subject.kind.method)([subject.topic])
            compactor.close()
        assert cluster.consume(subject.topic) == before
        await subject.finish()
        await subject.check(before)
    await nothing_is_left(cluster, *(subject.topic for subject in subjects))
