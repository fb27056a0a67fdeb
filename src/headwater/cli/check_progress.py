"""How far a check or an upkeep is: a bar on a terminal, nothing elsewhere."""

from types import TracebackType
from typing import Any, Self, TextIO


class CheckProgress:
    """A bar with what is being done; ``at`` may be called from any thread."""

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
            self._task = self._bar.add_task("Looking", total=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, doing: str, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=doing, completed=done, total=total or None)
