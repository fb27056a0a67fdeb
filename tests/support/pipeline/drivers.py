"""Drivers of the pipeline in separate processes, which die by SIGKILL at a chosen point.

Processes are forked from one that has imported everything, so that each starts in a moment. A
*point* says where a driver dies: one of the saga's ``STEPS``; inside of the step that writes
files, or of the one that commits to a table (``COMMIT_POINTS``); or at the n-th time that it
touches a store, given as a number.
"""

import asyncio
import inspect
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headwater.log.jobs.jobs import Job
from headwater.pipeline.cluster_stores import ClusterStores, open_cluster_stores
from headwater.pipeline.compaction.range_task import run_packed
from headwater.pipeline.compaction.summary import STEPS, NoWatcher
from headwater.pipeline.fsck.report import NoCheckWatcher
from headwater.pipeline.spark.runner import Done
from headwater.pipeline.upkeep.maintain import keep_tables
from headwater.tables.settings import TableSettings
from tests.support.pipeline import tally
from tests.support.pipeline.cluster import InProcessRunner, address_of, make_compactor

WRITING: Final = "writing"
"""One of the files is there."""
COMMIT_POINTS: Final = ("committing", "metadata", "told")
"""The catalog is about to be asked; the table's new metadata is written; the catalog has it."""
POINTS: Final = (WRITING, *STEPS[:3], *COMMIT_POINTS, *STEPS[3:])
MAINTAIN: Final = "maintain"
FORGETFUL: Final = TableSettings(keep_snapshots=1, snapshot_age_ms=0, max_snapshots=1)
CLAIM_MS: Final = 300

_PRELOADED: Final = (
    "tests.support.pipeline.drivers",
    "headwater.tables.catalog.metadata_catalog",
    "headwater.pipeline.compaction.chunks",
    "headwater.pipeline.upkeep.key_compaction",
    "headwater.pipeline.compaction.segment_files",
    "headwater.tables.commit.changes",
    "headwater.tables.files.partitioned",
    "headwater.tables.maintenance",
    "headwater.tables.files.parquet",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """What a driver does, and where it dies; it lives where there is no point."""

    data: Path
    method: str
    """One of the ``Compactor``'s, or ``MAINTAIN``."""
    topics: tuple[str, ...]
    point: str = ""


async def drive(order: Drive) -> int:
    """Run a driver; returns how it ended: 0, or the signal's number negated."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    process = context.Process(target=_run, args=(order,))
    process.start()
    try:
        await asyncio.to_thread(process.join)
    finally:
        if process.is_alive():
            process.kill()
    assert process.exitcode is not None
    if process.exitcode == -signal.SIGKILL:
        tally.kills.add(f"driver, {order.method}")
    return process.exitcode


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(NoWatcher):
    """Kills the process when a job comes past a step."""

    def __init__(self, step: str) -> None:
        self._step = step

    def step(self, job: Job, name: str) -> None:
        if name == self._step:
            kill_this_process()


class HalfDone(InProcessRunner):
    """Writes one file and dies."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        run_packed(tasks[0])
        kill_this_process()
        return []


def _run(order: Drive) -> None:
    asyncio.run(_main(order))


async def _main(order: Drive) -> None:
    async with open_cluster_stores(address_of(order.data), FORGETFUL) as place:
        if order.point.isdigit():
            _die_at_touch(place, int(order.point))
        elif order.point in COMMIT_POINTS:
            _die_in_commit(order.point)
        if order.method == MAINTAIN:
            assert not (await keep_tables(place, order.topics, NoCheckWatcher())).failures
            return
        compactor = make_compactor(
            place,
            runner=HalfDone() if order.point == WRITING else InProcessRunner(),
            watcher=Deadly(order.point),
            claim_ms=CLAIM_MS,
        )
        summary = await getattr(compactor, order.method)(order.topics)
        compactor.close()
    assert not summary.failures, summary.failures


def _die_in_commit(point: str) -> None:
    from headwater.tables.catalog.metadata_catalog import MetadataCatalog

    if point == "committing":
        _replace(MetadataCatalog, "commit_table", before=kill_this_process)
    elif point == "told":
        _replace(MetadataCatalog, "commit_table", after=kill_this_process)
    else:
        _replace(MetadataCatalog, "write_metadata", after=kill_this_process)


def _die_at_touch(place: ClusterStores, number: int) -> None:
    """Die at the ``number``-th touch, from 1: there is one before and one after every write."""
    from pyiceberg.io.pyarrow import PyArrowFile

    from headwater.tables.catalog.metadata_catalog import MetadataCatalog

    touches = itertools.count(1)

    def touch() -> None:
        if next(touches) == number:
            kill_this_process()

    _replace(MetadataCatalog, "commit_table", before=touch, after=touch)
    _replace(PyArrowFile, "create", before=touch)
    _replace(type(place.objects), "delete", before=touch, awaited=True)
    _replace(type(place.meta), "transact", before=touch, after=touch, awaited=True)


def _nothing() -> None: ...


def _replace(
    owner: Any,
    name: str,
    *,
    before: Callable[[], None] = _nothing,
    after: Callable[[], None] = _nothing,
    awaited: bool = False,
) -> None:
    """Have something done before and after every call of a method, in this process."""
    own = getattr(owner, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        before()
        result = own(*args, **kwargs)
        after()
        return result

    async def waited_for(*args: Any, **kwargs: Any) -> Any:
        before()
        result = await own(*args, **kwargs)
        after()
        return result

    static = isinstance(inspect.getattr_static(owner, name), staticmethod)
    setattr(owner, name, staticmethod(called) if static else waited_for if awaited else called)
