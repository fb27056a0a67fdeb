"""Processes that commit to one table at once, in a real SQLite catalog."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.tables.commit.changes import Rewrite, append_files, remove_files, rewrite_files
from headwater.tables.commit.live_files import every_live_file
from headwater.tables.commit.watermarks import Append, watermarks
from headwater.tables.maintenance import expire_snapshots
from headwater.tables.settings import TableSettings
from tests.support.tables.world import NAME, TablesWorld, rows, span

RIVALS = 3
START_S = 50
"""How long the others' start may take on a busy machine."""

_barrier: list[Any] = []


def meet_at(barrier: Any) -> None:
    _barrier.append(barrier)


class Rivals:
    """Processes that live as long as this module's tests: to start one takes seconds."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.barrier = context.Barrier(RIVALS)
        self.pool = ProcessPoolExecutor(
            RIVALS, mp_context=context, initializer=meet_at, initargs=(self.barrier,)
        )

    def run(self, work: Callable[..., None], *args: Any) -> None:
        """Let each do the work with its own number; raises what any of them raised."""
        self.barrier.reset()
        for one in [self.pool.submit(work, number, *args) for number in range(RIVALS)]:
            one.result(START_S)


@pytest.fixture(scope="module")
def rivals() -> Iterator[Rivals]:
    found = Rivals()
    yield found
    found.pool.shutdown(cancel_futures=True)


def together() -> None:
    """Go on when all have come here. A rival that failed makes the others fail too."""
    _barrier[0].wait(START_S)


def commit_same(_number: int, directory: Path, jobs: list[list[Append]]) -> None:
    target = TablesWorld.under(directory).target(create=False)
    for appends in jobs:
        together()
        outcome = append_files(target, appends)
        assert outcome.landed == {one.job for one in appends}


def test_rivals_with_the_same_jobs_append_them_once(world: TablesWorld, rivals: Rivals) -> None:
    target = world.target()
    jobs = [[world.append(p, start, start + 4) for p in (0, 1)] for start in range(0, 16, 4)]
    rivals.run(commit_same, world.directory, jobs)
    assert rows(target) == span(0, 0, 16) + span(1, 0, 16)


def commit_overlapping(number: int, directory: Path) -> None:
    """Each rival cuts the stream otherwise, and takes the next range from where the table is."""
    world = TablesWorld.under(directory)
    target = world.target(create=False)
    together()
    for turn in range(200):
        table = target.catalog.load_table(NAME)
        start = watermarks(table.properties).get(100, 0)
        if start >= 24:
            return
        end = start + 2 + (number + turn) % 3
        job = f"r{number}-{turn}"
        append_files(target, [world.append(0, start, end, job=job)])
    raise AssertionError("no end")


def test_rivals_with_overlapping_jobs_leave_every_offset_once(
    world: TablesWorld, rivals: Rivals
) -> None:
    target = world.target()
    rivals.run(commit_overlapping, world.directory)
    found = rows(target)
    end = watermarks(target.catalog.load_table(NAME).properties)[100]
    assert found == span(0, 0, end)


def commit_and_expire(number: int, directory: Path, jobs: list[Append]) -> None:
    target = TablesWorld.under(directory).target(create=False)
    settings = TableSettings(keep_snapshots=1, max_snapshots=1)
    for turn, append in enumerate(jobs):
        together()
        assert append_files(target, [append]).landed == {append.job}
        if (turn + number) % 2:
            expire_snapshots(target, settings, now_ms=0)


def test_expiry_in_between_brings_no_record_twice(world: TablesWorld, rivals: Rivals) -> None:
    target = world.target()
    jobs = [world.append(0, start, start + 4) for start in range(0, 24, 4)]
    rivals.run(commit_and_expire, world.directory, jobs)
    assert rows(target) == span(0, 0, 24)


def rewrite_and_append(
    number: int, directory: Path, rewrite: Rewrite, appends: list[Append], old: str
) -> None:
    target = TablesWorld.under(directory).target(create=False)
    together()
    if number == 0:
        for append in appends:
            append_files(target, [append])
        remove_files(target, [old])
    else:
        assert rewrite_files(target, [rewrite]).landed == {"big"}


def test_rewrites_appends_and_removals_do_not_undo_each_other(
    world: TablesWorld, rivals: Rivals
) -> None:
    target = world.target()
    small = [world.append(0, start, start + 2) for start in range(0, 10, 2)]
    old = world.append(1, 0, 3)
    append_files(target, [*small, old])
    rewrite = Rewrite(
        job="big",
        inputs=[one.files[0].key for one in small],
        files=[world.write(0, 0, 10, attempt="big")],
    )
    later = [world.append(1, start, start + 3) for start in range(3, 18, 3)]
    args = (world.directory, rewrite, later, old.files[0].key)
    rivals.run(rewrite_and_append, *args)
    assert rows(target) == span(0, 0, 10) + span(1, 3, 18)
    assert len(every_live_file(target.catalog.load_table(NAME))) == 6


def create(_number: int, directory: Path) -> None:
    together()
    TablesWorld.under(directory).target()


def test_rivals_create_one_catalog_and_one_table(world: TablesWorld, rivals: Rivals) -> None:
    rivals.run(create, world.directory)
    assert rows(world.target(create=False)) == []
