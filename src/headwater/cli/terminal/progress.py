"""A progress bar, shown on a terminal only."""

from types import TracebackType
from typing import Any, Self, TextIO


class ProgressBar:
    """The current activity and its progress. Any thread may call ``show``."""

    def __init__(self, out: TextIO, first: str) -> None:
        self._first = first
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
            self._task = self._bar.add_task(self._first, total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, doing: str, done: int | None = None, total: int | None = None) -> None:
        """Show the activity. Counts that are None stay unchanged."""
        if self._bar is not None:
            self._bar.update(self._task, description=doing, completed=done, total=total)
