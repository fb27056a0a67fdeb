"""Running packed tasks: on Spark, or wherever else a caller wants them."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from headwater.errors import StoreUnavailable
from headwater.pipeline.session import spark_session

POLL_SECONDS: Final = 0.25

Done = Callable[[int], None]
"""Is told, now and then and from any thread, how many tasks are done."""


class Runner(Protocol):
    """Runs tasks; blocks, so it is called on a thread."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        """Every task's result, in any order. Raises ``StoreUnavailable`` where some have none."""
        ...

    def close(self) -> None: ...


class SparkRunner:
    """A Spark session that starts with the first tasks and stays."""

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
    """Run tasks as one Spark job, one of them in each of its partitions."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from headwater.pipeline.task import RESULT_SCHEMA, in_arrow

    numbers = session.range(0, len(tasks), 1, len(tasks))
    try:
        with _progress(session, done):
            rows = numbers.mapInArrow(in_arrow(tasks), RESULT_SCHEMA).collect()
    except (PySparkException, Py4JError) as error:
        raise StoreUnavailable(f"Spark's job failed: {why(str(error))}") from error
    return [bytes(row.result) for row in rows]


_TELLING: Final = re.compile(
    r"^.*?((?:ConfigurationError|ModuleNotFoundError): .+|\[PYTHON_VERSION_MISMATCH\].+"
    r"|\w+(?:Error|Exception|Lost\w*): .+)$",
    re.MULTILINE,
)


def why(text: str) -> str:
    """The line of Spark's long report that says what went wrong: the last of a Python error.

    >>> why(chr(10).join(["Job aborted", "Traceback:", "ModuleNotFoundError: No module named 'x'"]))
    "ModuleNotFoundError: No module named 'x'"
    """
    python = text.partition("Driver stacktrace:")[0]
    told = _TELLING.findall(python) or _TELLING.findall(text) or text.strip().splitlines()
    line: str = told[-1] if told else "no reason given"
    return line.strip()[:300]


@contextlib.contextmanager
def _progress(session: Any, done: Done) -> Iterator[None]:
    """Tell ``done`` while the block runs."""
    from py4j.protocol import Py4JError

    tracker = session.sparkContext.statusTracker()
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
