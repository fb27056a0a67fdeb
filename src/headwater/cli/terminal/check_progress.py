"""A progress bar for checks, maintenance and restores."""

from typing import TextIO

from headwater.cli.terminal.progress import ProgressBar


class CheckProgress(ProgressBar):
    """See ``headwater.pipeline.fsck.report.CheckWatcher``."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out, "Starting")

    def at(self, doing: str, done: int, total: int) -> None:
        self.show(doing, done, total or None)
