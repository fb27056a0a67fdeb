"""Two ways of the same work in one run, by the medians of their rounds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from bench import report

ROUNDS = 5


@dataclass(slots=True)
class Comparison:
    """Ours by theirs has to reach ``bar``, or to stay below it where ``less`` is better.

    Without ``against`` the bar is ours alone.
    """

    figure: str
    unit: str
    against: str
    bar: float
    less: bool = False
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def forget(self) -> None:
        """Leave out the rounds so far, which were there to warm up."""
        self.ours.clear()
        self.theirs.clear()

    @property
    def ratio(self) -> float | None:
        return (
            statistics.median(self.ours) / statistics.median(self.theirs) if self.theirs else None
        )

    @property
    def holds(self) -> bool:
        reached = statistics.median(self.ours) if self.ratio is None else self.ratio
        return reached <= self.bar if self.less else reached >= self.bar

    @property
    def bar_text(self) -> str:
        return f"{'≤' if self.less else '≥'} {self.bar:g}{' x' if self.against else ''}"

    def row(self) -> dict[str, object]:
        return {
            "figure": self.figure,
            "unit": self.unit,
            "headwater": report.spread(self.ours),
            "against": self.against,
            "its median (low-high)": report.spread(self.theirs),
            "ratio": "" if self.ratio is None else f"{self.ratio:.2f}",
            "bar": self.bar_text,
            "holds": self.holds,
        }

    def as_json(self) -> dict[str, object]:
        return {
            "figure": self.figure,
            "unit": self.unit,
            "bar": self.bar_text,
            "headwater": _rounds(self.ours),
            "against": {self.against: _rounds(self.theirs)} if self.against else None,
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "holds": self.holds,
        }


def _rounds(values: Sequence[float]) -> dict[str, object]:
    return {
        "median": round(statistics.median(values), 3),
        "low": round(min(values), 3),
        "high": round(max(values), 3),
        "rounds": [round(value, 3) for value in values],
    }


def shown(console: Console, title: str, figures: Sequence[Comparison]) -> object:
    """Print a table of figures; returns what is written of them."""
    report.show_rows(console, title, [each.row() for each in figures])
    return [each.as_json() for each in figures]
