"""Two ways of the same work in one run, by the medians of their rounds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.report import spread

ROUNDS = 5


@dataclass(slots=True)
class Comparison:
    """Ours by theirs has to reach ``bar``, or to stay below it where ``less`` is better."""

    figure: str
    unit: str
    against: str
    bar: float
    less: bool = False
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        ratio = statistics.median(self.ours) / statistics.median(self.theirs)
        return {
            "figure": self.figure,
            "unit": self.unit,
            "headwater": spread(self.ours),
            "against": self.against,
            "its median": spread(self.theirs),
            "ratio": round(ratio, 2),
            "bar": f"{'≤' if self.less else '≥'} {self.bar:g}",
            "holds": ratio <= self.bar if self.less else ratio >= self.bar,
        }


def absolute(figure: str, unit: str, values: Sequence[float], bar: float) -> dict[str, object]:
    """A row of a figure that is held against nobody."""
    return {
        "figure": figure,
        "unit": unit,
        "headwater": spread(list(values)),
        "against": "",
        "its median": "",
        "ratio": "",
        "bar": f"≥ {bar:g}",
        "holds": statistics.median(values) >= bar,
    }
