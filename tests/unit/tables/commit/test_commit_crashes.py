"""A committer that dies between any two of its calls, and one that takes up where it was."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.concurrent import ExecutorFactory

from headwater.errors import CatalogUnavailable
from headwater.tables.catalog.metadata_catalog import MetadataCatalog
from headwater.tables.commit.changes import (
    Rewrite,
    append_files,
    remove_files,
    rewrite_files,
)
from headwater.tables.commit.live_files import every_live_file
from headwater.tables.files.durable_io import DurableFileIO
from headwater.tables.maintenance import delete_orphaned_metadata, expire_snapshots
from headwater.tables.settings import TableSettings
from headwater.tables.topic_tables import TopicTable
from tests.support.tables.world import NAME, TablesWorld, rows, span

CALLS: list[tuple[type, str]] = [
    (DurableFileIO, "new_output"),
    (PyArrowFileIO, "delete"),
    (MetadataCatalog, "load_table"),
    (MetadataCatalog, "commit_table"),
]
NONE_LEFT = 10_000


class KilledProcess(BaseException):
    """The process is gone."""


class Calls:
    """Counts what goes out, before and after; the chosen one does not come back."""

    def __init__(self, last: int, failure: type[BaseException]) -> None:
        self.last = last
        self.failure = failure
        self.made = 0
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:  # manifests are written in threads
            self.made += 1
            chosen = self.made == self.last
        if chosen:
            raise self.failure


@contextmanager
def dying_at(last: int, failure: type[BaseException] = KilledProcess) -> Iterator[Calls]:
    calls = Calls(last, failure)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in CALLS:
            original = getattr(owner, name)

            def wrapped(self: Any, *args: Any, original: Any = original, **options: Any) -> Any:
                calls.step()
                result = original(self, *args, **options)
                calls.step()
                return result

            patch.setattr(owner, name, wrapped)
        try:
            yield calls
        finally:
            _end_threads()


def _end_threads() -> None:
    """Have none of this process's threads do anything in the life of the next."""
    ExecutorFactory.get_or_create().shutdown()
    ExecutorFactory._instance = None


def crash_everywhere(
    world: TablesWorld, work: Callable[[TopicTable], object], expected: Any
) -> None:
    """Die at each call in turn, over and over on one table, then let the work be finished."""
    for last in range(1, NONE_LEFT):
        target = world.target(create=False)
        with dying_at(last) as calls:
            try:
                work(target)
            except KilledProcess:
                pass
            else:
                assert calls.made < last
                break
    assert rows(world.target(create=False)) == expected


def orphans(world: TablesWorld) -> list[str]:
    """Metadata that a later sweep finds; a second one finds none."""
    target = world.target(create=False)
    found = delete_orphaned_metadata(target, older_than_ms=-1, now_ms=2**42)
    assert delete_orphaned_metadata(target, older_than_ms=-1, now_ms=2**42) == []
    return found


def test_an_append_survives_a_crash_at_every_call(world: TablesWorld) -> None:
    target = world.target()
    for last in range(1, NONE_LEFT):
        append = world.append(0, last * 10, last * 10 + 10, holes=[(0, 10)])
        with dying_at(last) as calls:
            try:
                append_files(target, [append])
            except KilledProcess:
                pass
            else:
                assert calls.made < last
                break
        outcome = append_files(world.target(create=False), [append])
        assert outcome.landed == {append.job}
    assert rows(target) == span(0, 10, last * 10 + 10)
    assert last > 8
    orphans(world)
    assert rows(target) == span(0, 10, last * 10 + 10)


def test_a_rewrite_survives_a_crash_at_every_call(world: TablesWorld) -> None:
    target = world.target()
    inputs = [world.append(0, 0, 5), world.append(0, 5, 9)]
    append_files(target, inputs)
    rewrite = Rewrite(
        job="big",
        inputs=[one.files[0].key for one in inputs],
        files=[world.write(0, 0, 9, attempt="big")],
    )
    crash_everywhere(world, lambda target: rewrite_files(target, [rewrite]), span(0, 0, 9))
    assert len(every_live_file(target.catalog.load_table(NAME))) == 1
    orphans(world)
    assert rows(target) == span(0, 0, 9)


def test_a_removal_survives_a_crash_at_every_call(world: TablesWorld) -> None:
    appends = [world.append(0, 0, 5), world.append(0, 5, 9)]
    append_files(world.target(), appends)
    key = appends[0].files[0].key
    crash_everywhere(world, lambda target: remove_files(target, [key]), span(0, 5, 9))


def test_an_expiry_survives_a_crash_at_every_call(world: TablesWorld) -> None:
    target = world.target()
    for start in range(0, 30, 5):
        append_files(target, [world.append(0, start, start + 5)])
    settings = TableSettings(keep_snapshots=2, max_snapshots=2)
    crash_everywhere(
        world, lambda target: expire_snapshots(target, settings, now_ms=0), span(0, 0, 30)
    )
    table = target.catalog.load_table(NAME)
    assert len(table.snapshots()) == 2
    orphans(world)
    assert rows(target) == span(0, 0, 30)


@pytest.mark.parametrize("last", [1, 2, 7, 9, 11, 12])
def test_a_catalog_that_does_not_answer_is_a_typed_error_and_a_repeat_is_exact(
    world: TablesWorld, last: int
) -> None:
    target = world.target()
    append = world.append(0, 0, 5)
    with (
        dying_at(last, ConnectionError),
        pytest.raises(CatalogUnavailable, match="does not answer"),
    ):
        append_files(target, [append])
    append_files(target, [append])
    assert rows(target) == span(0, 0, 5)
