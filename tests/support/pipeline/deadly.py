"""Spark executors that are killed by SIGKILL while they write files.

The worker of a task kills itself, or the JVM of its executor, once: before the task, with its
files written and no answer given, or in the middle of writing. A file says that it happened.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from headwater.pipeline.spark.runner import Done, run_on
from tests.support.pipeline import tally

MOMENTS: Final = ("before", "writing", "written")
WORKER: Final = "worker"
EXECUTOR: Final = "executor"


class DeadlyRunner:
    """Runs tasks on a Spark session. The first one kills its ``victim`` at ``moment``."""

    def __init__(self, session: Any, moment: str, victim: str, done: Path) -> None:
        self._session = session
        self._moment = moment
        self._victim = victim
        self._done = done

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        function = _deadly(list(tasks), self._moment, self._victim, str(self._done))
        try:
            with patch(
                "headwater.pipeline.compaction.range_task.in_arrow", lambda _tasks: function
            ):
                return run_on(self._session, tasks, done)
        finally:
            assert self._done.exists(), f"no {self._victim} was killed {self._moment}"
            tally.kills.add(f"Spark's {self._victim}")

    def close(self) -> None: ...


def _deadly(
    tasks: list[bytes], moment: str, victim: str, done: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    # A closure travels to executors by value: they need not be able to import the tests.
    def run(numbers: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from headwater.pipeline.compaction.range_task import run_packed
        from headwater.tables.files import object_writer

        def kill() -> None:
            try:
                os.close(os.open(done, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            # A worker is forked by a daemon, which the executor's JVM has started.
            jvm = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(") ")[-1].split()[1])
            os.kill(jvm if victim == "executor" else os.getpid(), signal.SIGKILL)

        own = object_writer._publish

        def publish(*args: Any) -> None:
            kill()
            own(*args)

        if moment == "writing":
            object_writer._publish = publish  # type: ignore[assignment]
        try:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    if moment == "before":
                        kill()
                    result = run_packed(tasks[number])
                    if moment == "written":
                        kill()
                    yield pa.RecordBatch.from_pydict({"result": [result]})
        finally:
            object_writer._publish = own

    return run
