"""The progress of a compaction: a bar on a terminal, and log lines."""

import logging
from typing import TextIO

from headwater.cli.terminal.progress import ProgressBar
from headwater.log.jobs.jobs import Job

logger = logging.getLogger(__name__)

_ACTIVITIES = {
    "created": "Reading",
    "written": "Fixing manifests",
    "fixed": "Committing to the tables",
    "committed": "Swapping the index",
    "finished": "Compacted",
}


class TerminalWatcher(ProgressBar):
    """See ``headwater.pipeline.compaction.summary.Watcher``."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out, "Looking for work")

    def step(self, job: Job, name: str) -> None:
        if (activity := _ACTIVITIES.get(name)) is not None:
            self.show(f"{activity} {job.topic}-{job.partition}")
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
        self.show("Writing files", done, total)

    def waiting(self, reason: str) -> None:
        logger.warning("Compaction is waiting", extra={"reason": reason})
