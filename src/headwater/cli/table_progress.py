"""How far a compaction is: a bar on a terminal, lines of the log elsewhere."""

import logging
from types import TracebackType
from typing import Any, Self, TextIO

from headwater.log.jobs import Job

logger = logging.getLogger(__name__)

_DOING = {
    "created": "Reading",
    "written": "Fixing manifests",
    "fixed": "Committing to the tables",
    "committed": "Swapping the index",
    "finished": "Compacted",
}


class TerminalWatcher:
    """See ``headwater.pipeline.summary.Watcher``."""

    def __init__(self, out: TextIO) -> None:
        self._bar: Any = None
        self._task: Any = None
        if out.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
            from rich.progress import TimeElapsedColumn as Elapsed

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                Elapsed(),
                console=Console(file=out),
                transient=True,
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("Looking for work", total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, job: Job, name: str) -> None:
        doing = _DOING.get(name)
        if self._bar is not None and doing is not None:
            self._bar.update(self._task, description=f"{doing} {job.topic}-{job.partition}")
        if name == "finished":
            logger.info(
                "Compacted",
                extra={
                    "topic": job.topic,
                    "partition": job.partition,
                    "start": job.start,
                    "end": job.end,
                    "files": len(job.files),
                },
            )

    def tasks(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description="Writing files", completed=done, total=total)

    def waiting(self, reason: str) -> None:
        logger.warning("Compaction waits: %s", reason)
