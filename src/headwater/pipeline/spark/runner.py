"""Running encoded tasks on Spark."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from headwater.errors import StoreUnavailable
from headwater.pipeline.spark.error_text import why
from headwater.pipeline.spark.session import spark_session

POLL_SECONDS: Final = 0.25

Done = Callable[[int], None]
"""Receives the number of finished tasks from time to time, from any thread."""


class Runner(Protocol):
    """Runs tasks. Methods block, so call them on a thread."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        """Results of all tasks, in any order. Raises ``StoreUnavailable`` if a task has none."""
        ...

    def close(self) -> None: ...


class SparkRunner:
    """Runs tasks on a Spark session, which starts with the first tasks."""

    def __init__(self, master: str, *, fast: bool = True, log: Path | None = None) -> None:
        self._master = master
        self._fast = fast
        self._log = log
        self._open = ExitStack()
        self._session: Any = None

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        if self._session is None:
            self._session = self._open.enter_context(
                spark_session(self._master, fast=self._fast, log=self._log)
            )
        return run_on(self._session, tasks, done)

    def close(self) -> None:
        self._session = None
        self._open.close()


def run_on(session: Any, tasks: Sequence[bytes], done: Done) -> list[bytes]:
    """Run tasks as one Spark job with a partition for each task."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from headwater.pipeline.compaction.range_task import RESULT_SCHEMA, in_arrow

    numbers = session.range(0, len(tasks), 1, len(tasks))
    try:
        with _progress(session, done):
            rows = numbers.mapInArrow(in_arrow(tasks), RESULT_SCHEMA).collect()
    except (PySparkException, Py4JError) as error:
        raise StoreUnavailable(f"Spark's job failed: {why(str(error))}") from error
    return [bytes(row.result) for row in rows]


def _progress(session: Any, done: Done) -> contextlib.AbstractContextManager[None]:
    """Report progress to ``done`` while the block runs."""
    if hasattr(session, "_jsparkSession"):
        return _polled_progress(session.sparkContext.statusTracker(), done)
    return _connect_progress(session, done)


@contextlib.contextmanager
def _connect_progress(session: Any, done: Done) -> Iterator[None]:
    """Progress from a Spark Connect server."""

    def tell(stages: Any, **_more: Any) -> None:
        done(sum(stage.num_completed_tasks for stage in stages or ()))

    session.registerProgressHandler(tell)
    try:
        yield
    finally:
        session.removeProgressHandler(tell)


@contextlib.contextmanager
def _polled_progress(tracker: Any, done: Done) -> Iterator[None]:
    from py4j.protocol import Py4JError

    over = threading.Event()

    def follow() -> None:
        while not over.wait(POLL_SECONDS):
            with contextlib.suppress(Py4JError, OSError):
                for stage in tracker.getActiveStageIds():
                    if (info := tracker.getStageInfo(stage)) is not None:
                        done(info.numCompletedTasks)

    follower = threading.Thread(target=follow, name="headwater-progress", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join()
