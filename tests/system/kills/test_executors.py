"""Executors of a Spark cluster are killed while they write; Spark gives their tasks to others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.pipeline.spark.session import spark_session
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.pipeline.deadly import EXECUTOR, MOMENTS, WORKER, DeadlyRunner
from tests.support.pipeline.drivers import CLAIM_MS, FORGETFUL
from tests.support.pipeline.followers import followed
from tests.support.pipeline.readings.kinds import KINDS, PARTITIONS, Subject, nothing_is_left


@pytest.fixture(scope="module")
def executors() -> Iterator[Any]:
    with spark_session("local-cluster[2,1,1024]", fast=True) as session:
        yield session


@pytest.mark.parametrize("victim", [WORKER, EXECUTOR])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_job_survives_what_is_killed_under_it(
    cluster: PipelineCluster, executors: Any, tmp_path: Path, moment: str, victim: str
) -> None:
    subjects = [Subject(cluster, kind) for kind in KINDS]
    for subject in subjects:
        before = await subject.prepare()
        gaps = subject.kind.keeps_last
        with followed(cluster.bootstrap, {subject.topic: PARTITIONS}, gaps=gaps):
            deadly = DeadlyRunner(executors, moment, victim, tmp_path / subject.topic)
            async with cluster.open(FORGETFUL) as place:
                compactor = make_compactor(place, runner=deadly, claim_ms=CLAIM_MS)
                summary = await getattr(compactor, subject.kind.method)([subject.topic])
                compactor.close()
        assert (summary.jobs, summary.failures) == (PARTITIONS, [])
        await subject.check(before)
    await nothing_is_left(cluster, *(subject.topic for subject in subjects))
