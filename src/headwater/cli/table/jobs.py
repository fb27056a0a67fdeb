"""Running jobs of the pipeline for a command, with a progress bar and a summary."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from headwater.cli.table.running import location_of, run_to_end
from headwater.cli.terminal.output import byte_size, counted, print_json

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.pipeline.compaction.compactor import Compactor
    from headwater.pipeline.compaction.summary import RunSummary, Watcher

Work = Callable[["Compactor"], Awaitable["RunSummary"]]


def run_jobs(
    settings: "Settings", master: str | None, work: Work, *, done: str, as_json: bool
) -> None:
    """Run ``work`` and print a summary that begins with ``done``, such as "Compacted".

    Raises ``ClickException`` with the failures.
    """
    from headwater.cli.table.progress import TerminalWatcher
    from headwater.pipeline.spark.session import check_spark
    from headwater.telemetry import logs

    check_spark()
    logs.configure(settings.logging.format, settings.logging.level)
    # At the level info, pyiceberg logs every metadata file that it opens.
    logging.getLogger("pyiceberg").setLevel(logging.WARNING)
    with TerminalWatcher(sys.stderr) as watcher:
        summary = run_to_end(_with_compactor(settings, master, work, watcher))
    if as_json:
        print_json(summary.as_json())
    else:
        _print_summary(summary, done)
    if summary.failures:
        raise click.ClickException("; ".join(summary.failures))


async def _with_compactor(
    settings: "Settings", master: str | None, work: Work, watcher: "Watcher"
) -> "RunSummary":
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.compaction.compactor import Compactor
    from headwater.pipeline.spark.runner import SparkRunner

    own = settings.pipeline
    async with open_cluster_stores(location_of(settings), settings.tables) as stores:
        runner = SparkRunner(master or own.master)
        compactor = Compactor(
            meta=stores.meta,
            objects=stores.objects,
            reclaimer=stores.reclaimer,
            objects_url=stores.location.objects_url,
            clock=stores.clock,
            tables=stores.tables,
            runner=runner,
            settings=own,
            watcher=watcher,
        )
        try:
            return await work(compactor)
        finally:
            # Ends a running Spark job; a thread may be waiting for it.
            await asyncio.to_thread(runner.close)
            compactor.close()


def _print_summary(summary: "RunSummary", done: str) -> None:
    if summary.jobs:
        click.echo(
            f"{done} {counted(summary.records, 'record')} of "
            f"{counted(len(summary.streams), 'partition')}, {byte_size(summary.chunk_bytes)}, "
            f"to {counted(summary.files, 'file')} of {byte_size(summary.file_bytes)} "
            f"in {summary.seconds:.1f} s ({summary.megabytes_per_second:.1f} MB/s)."
        )
    elif not summary.failures:
        click.echo(f"Nothing to {_INFINITIVES[done]}.")
    for topic, partition, start, end, reason in summary.set_aside:
        click.echo(f"Set aside {topic}-{partition} [{start}, {end}): {reason}", err=True)


_INFINITIVES = {"Compacted": "compact", "Rewrote": "rewrite", "Cleaned": "clean"}
