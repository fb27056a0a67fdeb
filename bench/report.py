"""The table on the terminal and the JSON beside the code."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import Result
from bench.peer import PEERS

RESULTS = Path(__file__).parent / "results"


def show(console: Console, result: Result) -> None:
    peers = [peer for peer in PEERS if any(peer in by_peer for by_peer in result.rounds.values())]
    table = Table(title=result.bench.title, title_justify="left")
    table.add_column("")
    table.add_column("unit")
    for peer in peers:
        table.add_column(f"{peer}\nmedian (low-high)", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("ratio", justify="right")
    for figure in result.bench.figures:
        cells = [spread(result.rounds[figure.name].get(peer, [])) for peer in peers]
        ratio, holds = result.ratio(figure), result.holds(figure)
        colour = {None: "default", True: "green", False: "red"}[holds]
        shown = "" if ratio is None else f"{ratio:.2f}"
        table.add_row(
            figure.name, figure.unit, *cells, figure.bar_text(), shown,
            style=colour,
        )  # fmt: skip
    console.print(table)


def spread(values: list[float]) -> str:
    if not values:
        return ""
    return f"{statistics.median(values):.4g} ({min(values):.4g}-{max(values):.4g})"


def show_rows(console: Console, title: str, rows: list[Mapping[str, object]]) -> None:
    """A table of plain rows, for benches that have no peer to stand beside."""
    table = Table(title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)


def write(name: str, machine: Mapping[str, object], rounds: int | None, content: object) -> Path:
    """Keep a result; ``rounds`` is None for benches that repeat, or not, by themselves."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    repeated = {} if rounds is None else {"rounds": rounds}
    document = {"bench": name, "machine": machine, **repeated, "results": content}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return path
