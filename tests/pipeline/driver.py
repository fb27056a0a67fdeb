"""A compaction in a process of its own, which kills itself at a named step.

``python -m tests.pipeline.driver DATA STEP RUNNER TOPIC...``: STEP is one of ``STEPS``, ``never``
or ``writing`` (with files half done); RUNNER is ``spark`` or ``here``.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from headwater.log.jobs import Job
from headwater.pipeline.place import open_place
from headwater.pipeline.runner import Done, Runner, SparkRunner
from headwater.pipeline.summary import NoWatcher
from headwater.pipeline.task import run_packed
from headwater.tables.settings import TableSettings
from tests.pipeline.cluster import InProcess, address_of, make_compactor


class Deadly(NoWatcher):
    """Kills the process when a job comes past a step."""

    def __init__(self, step: str) -> None:
        self._step = step

    def step(self, job: Job, name: str) -> None:
        if name == self._step:
            kill()


class HalfDone(InProcess):
    """Writes one file and dies."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        run_packed(tasks[0])
        kill()
        return []


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(data: Path, step: str, runner: Runner, topics: Sequence[str]) -> None:
    async with open_place(address_of(data), TableSettings()) as place:
        compactor = make_compactor(place, runner=runner, watcher=Deadly(step))
        summary = await compactor.compact(topics)
        compactor.close()
        runner.close()
    assert not summary.failures, summary.failures


if __name__ == "__main__":
    _, place_, step_, kind, *topics_ = sys.argv
    runner_: Runner = SparkRunner("local[2]", fast=True) if kind == "spark" else InProcess()
    if step_ == "writing":
        runner_ = HalfDone()
    asyncio.run(main(Path(place_), step_, runner_, topics_))
