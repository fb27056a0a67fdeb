"""Several drivers at once on the same topic: one of them counts, and nothing is there twice."""

import asyncio
from uuid import uuid4

import msgspec
import pytest

from headwater.log.jobs.jobs import Job
from headwater.log.jobs.steps import JobSteps
from headwater.pipeline.compaction.summary import STEPS
from tests.support.pipeline import tally
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.pipeline.drivers import CLAIM_MS, FORGETFUL, Drive, drive
from tests.support.pipeline.followers import followed
from tests.support.pipeline.readings.kinds import (
    COMPACT,
    KINDS,
    PARTITIONS,
    JobKind,
    Subject,
    nothing_is_left,
    run,
)
from tests.support.pipeline.sizes import some
from tests.system.spark.compaction.test_faults import Meanwhile, elsewhere

RIVALS = 3
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@every_kind
async def test_three_rivals_make_one_copy_though_one_is_killed(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    with followed(cluster.bootstrap, {subject.topic: PARTITIONS}, gaps=kind.keeps_last):
        for point in some(("", *kind.points), ("", "fixed")):
            before = await subject.prepare()
            orders = [
                Drive(
                    data=cluster.data,
                    method=kind.method,
                    topics=(subject.topic,),
                    point=point if number == 0 else "",
                )
                for number in range(RIVALS)
            ]
            ended = await asyncio.gather(*(drive(order) for order in orders))
            assert ended[1:] == [0] * (RIVALS - 1)
            tally.faults.add("three rivals")
            await subject.check(before)
    await nothing_is_left(cluster, subject.topic)


@every_kind
async def test_a_rival_that_overtakes_at_any_step_changes_nothing(
    cluster: PipelineCluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    for step in some(STEPS[:-1], ("created", "fixed", "committed")):
        if step not in kind.points:
            continue
        before = await subject.prepare()
        # This blocks the loop, so that the claims of this driver expire.
        overtaken = Meanwhile(step, lambda: elsewhere(subject.finish))
        async with cluster.open(FORGETFUL) as place:
            compactor = make_compactor(place, watcher=overtaken, claim_ms=CLAIM_MS)
            summary = await getattr(compactor, kind.method)([subject.topic])
            compactor.close()
        assert not summary.failures, step
        tally.faults.add("a rival that overtook")
        await subject.check(before)
    await nothing_is_left(cluster, subject.topic)


async def test_a_driver_that_was_too_late_with_a_job_sees_to_its_end(
    cluster: PipelineCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rival died right after it had created the job."""
    subject = Subject(cluster, COMPACT)
    before = await subject.prepare()
    create = JobSteps.create
    overtaken = set()

    async def late(steps: JobSteps, job: Job, generation: int) -> Job | None:
        if job.stream not in overtaken:
            overtaken.add(job.stream)
            await create(steps, msgspec.structs.replace(job, id=uuid4().hex), generation)
        return await create(steps, job, generation)

    monkeypatch.setattr(JobSteps, "create", late)
    await run(cluster, "compact", subject.topic)
    assert len(overtaken) == PARTITIONS
    await subject.check(before)
    await nothing_is_left(cluster, subject.topic)
