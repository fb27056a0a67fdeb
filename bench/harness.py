"""Rounds in alternating order, medians and spread, and what is said of them."""

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.peer import HEADWATER, KAFKA, Peer

Better = Literal["more", "less"]


@dataclass(frozen=True, slots=True)
class TurnSize:
    """How much one turn does."""

    records: int
    seconds: float


FULL = TurnSize(records=500_000, seconds=10)
QUICK = TurnSize(records=100_000, seconds=3)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. ``bar`` is what is to be reached, ``against`` a peer or absolutely."""

    name: str
    unit: str
    better: Better
    bar: float | None = None
    against: str | None = KAFKA

    def holds(self, value: float, reference: float | None) -> bool | None:
        if self.bar is None or (self.against is not None and reference is None):
            return None
        reached = value if reference is None or self.against is None else value / reference
        return reached >= self.bar if self.better == "more" else reached <= self.bar

    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        sign = "≥" if self.better == "more" else "≤"
        return f"{sign} {self.bar:g} {f'x {self.against}' if self.against else self.unit}"


Turn = Callable[[Peer, TurnSize], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Bench:
    """``turn`` does one round on one peer and returns a value for each figure by its name.

    ``warm_up`` takes one small turn on each peer first, which is not counted.
    """

    name: str
    title: str
    figures: tuple[Figure, ...]
    turn: Turn
    peers: tuple[str, ...] = (HEADWATER, KAFKA)
    warm_up: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings of Headwater's that differ from its defaults."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Settings of Kafka's that differ from its defaults."""


@dataclass(slots=True)
class Result:
    bench: Bench
    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    """By figure, then by peer."""

    def add(self, peer: str, values: Mapping[str, float]) -> None:
        for figure in self.bench.figures:
            self.rounds.setdefault(figure.name, {}).setdefault(peer, []).append(values[figure.name])

    def median(self, figure: Figure, peer: str | None) -> float | None:
        values = self.rounds.get(figure.name, {}).get(peer or "")
        return statistics.median(values) if values else None

    def ratio(self, figure: Figure) -> float | None:
        """Headwater's median by that of the peer that it is held against."""
        ours, theirs = self.median(figure, HEADWATER), self.median(figure, figure.against or KAFKA)
        return ours / theirs if ours is not None and theirs else None

    def holds(self, figure: Figure) -> bool | None:
        ours = self.median(figure, HEADWATER)
        return None if ours is None else figure.holds(ours, self.median(figure, figure.against))

    def as_json(self) -> list[dict[str, object]]:
        return [
            {
                "figure": figure.name,
                "unit": figure.unit,
                "better": figure.better,
                "bar": figure.bar_text(),
                "peers": {
                    peer: {
                        "median": round(statistics.median(values), 3),
                        "low": round(min(values), 3),
                        "high": round(max(values), 3),
                        "rounds": [round(value, 3) for value in values],
                    }
                    for peer, values in self.rounds[figure.name].items()
                },
                "ratio": None if (ratio := self.ratio(figure)) is None else round(ratio, 3),
                "holds": self.holds(figure),
            }
            for figure in self.bench.figures
        ]


def run(
    bench: Bench,
    directory: Path,
    *,
    peers: Sequence[str],
    rounds: int,
    size: TurnSize,
    say: Callable[[str], None],
) -> Result:
    """All rounds of one bench. Every peer stays up; the one that is not measured is idle."""
    result = Result(bench)
    running: list[Peer] = []
    try:
        for name in (each for each in bench.peers if each in peers):
            data = directory / f"{bench.name}-{name}"
            running += [Peer(name, data, bench.environment, bench.properties)]
        if bench.warm_up:
            for peer in running:
                bench.turn(peer, QUICK)
        for number in range(rounds):
            for peer in running if number % 2 == 0 else running[::-1]:
                # What one peer left to the kernel to write must not slow the next one down.
                os.sync()
                values = bench.turn(peer, size)
                result.add(peer.name, values)
                said = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
                say(f"{bench.name} {number + 1}/{rounds} {peer.name}: {said}")
    finally:
        for peer in running:
            peer.stop()
    return result
