"""``make bench``, or ``python -m bench [NAME ...]``: measure side by side with Apache Kafka."""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from bench import (
    cluster,
    footprint,
    groups,
    harness,
    latency,
    machine,
    meta_commits,
    pipeline,
    pipeline_alone,
    record_checks,
    report,
    throughput,
    week,
)
from bench.peer import PEERS

BENCHES = {
    bench.name: bench
    for bench in (
        *throughput.BENCHES,
        *record_checks.BENCHES,
        *latency.BENCHES,
        *groups.BENCHES,
        *footprint.BENCHES,
    )
}
QUICK_WEEK_HOURS = 2
WIDTH = 150


def metadata(console: Console, directory: Path, *, quick: bool) -> object:
    """The metadata transaction by its size, and commits a second by the number of processes."""
    results = meta_commits.measure(directory, 1.0 if quick else 5.0)
    for name, rows in results.items():
        report.show_rows(console, f"Metadata transactions: {name}", list(rows))
    return results


def simulated_week(console: Console, directory: Path, *, quick: bool) -> object:
    """A week of 100 records/s on a simulated clock."""
    done = week.run(QUICK_WEEK_HOURS) if quick else week.run()
    row = {**asdict(done), "within bars": done.within_bars}
    report.show_rows(console, "A week of 100 records/s on 10 partitions", [row])
    return row


ALONE: dict[str, Callable[..., object]] = {
    "metadata": metadata,
    "week": simulated_week,
    "pipeline-compact": pipeline.compaction,
    "pipeline-source": pipeline.source,
    "pipeline-fetch": pipeline_alone.fetch,
    "pipeline-neighbours": pipeline_alone.neighbours,
    "pipeline-commits": pipeline_alone.commits,
    **cluster.ALONE,
}
"""Benches with tables of their own: they take the console, a folder and ``quick``."""


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice([*BENCHES, *ALONE]))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
@click.option("--quick", is_flag=True, help="One small round each; nothing is written.")
@click.option("--peer", "peers", multiple=True, type=click.Choice(PEERS), help="Only these.")
@click.option(
    "--directory", type=click.Path(path_type=Path), help="Where the servers keep their data."
)
def main(
    *,
    names: tuple[str, ...],
    rounds: int,
    quick: bool,
    peers: tuple[str, ...],
    directory: Path | None,
) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    size = harness.QUICK if quick else harness.FULL
    rounds = 1 if quick else rounds
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as folder:
        described = machine.describe(Path(folder))
        report.show_rows(console, "Machine", [described])
        for name in names or (*BENCHES, *ALONE):
            content: object
            if name in BENCHES:
                result = harness.run(
                    BENCHES[name], Path(folder), peers=peers or PEERS, rounds=rounds, size=size,
                    say=lambda line: console.print(f"[dim]{line}"),
                )  # fmt: skip
                report.show(console, result)
                content = result.as_json()
            else:
                content = ALONE[name](console, Path(folder), quick=quick)
            if not quick and not peers:
                path = report.write(name, described, rounds if name in BENCHES else None, content)
                console.print(f"[dim]written to {path}")


if __name__ == "__main__":
    main()
