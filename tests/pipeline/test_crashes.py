"""Drivers and workers are killed in jobs of every kind; others take the jobs up.

Consumers read all the time. At the end log and table are equal, and nothing is left over.
"""

import asyncio
import signal

import pytest

from tests.pipeline.cluster import Cluster
from tests.pipeline.drivers import Drive, drive
from tests.pipeline.followers import followed
from tests.pipeline.kinds import KINDS, PARTITIONS, JobKind, Subject, nothing_is_left


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
    cluster: Cluster, kind: JobKind
) -> None:
    subject = Subject(cluster, kind)
    with followed(cluster.bootstrap, {subject.topic: PARTITIONS}, gaps=kind.keeps_last):
        for point in kind.points:
            await kill_at(point, subject)
    await nothing_is_left(cluster, subject.topic)
