"""``headwater table``: compact topics into Iceberg tables, and show these."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from headwater.app.signals import stop_with_parent
from headwater.cli.store_options import location_options
from headwater.cli.table.clean import clean
from headwater.cli.table.jobs import run_jobs
from headwater.cli.table.maintain import maintain
from headwater.cli.table.rewrite import rewrite
from headwater.cli.table.running import location_of, run_to_end
from headwater.cli.terminal.output import as_json, byte_size, counted, print_json, print_table

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.pipeline.compaction.compactor import Compactor
    from headwater.pipeline.compaction.summary import RunSummary
    from headwater.pipeline.upkeep.table_facts import TableFacts

_topics = click.argument("topics", nargs=-1, metavar="[TOPIC]...")


@click.group()
def table() -> None:
    """Manage the Iceberg tables of topics."""


@table.command(epilog="Examples: headwater table compact orders; headwater table compact --follow")
@_topics
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Run until interrupted; compact data that is old or large enough.",
)
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@click.option("--supervised", is_flag=True, hidden=True)
@as_json
@location_options
def compact(
    settings: "Settings",
    *,
    topics: tuple[str, ...],
    follow: bool,
    master: str | None,
    supervised: bool,
    as_json: bool,
) -> None:
    """Compact topics into files of their tables, on Spark.

    Without TOPIC: all topics. Brokers can run at the same time, and serve fetches from the files
    afterwards. The next run continues an interrupted one.
    """
    run_jobs(
        settings,
        master,
        partial(_compact, topics, follow=follow, supervised=supervised),
        done="Compacted",
        as_json=as_json,
    )


async def _compact(
    topics: Sequence[str], compactor: "Compactor", *, follow: bool, supervised: bool
) -> "RunSummary":
    task = asyncio.current_task()
    if supervised and task is not None:
        stop_with_parent(partial(_cancel, task))
    if follow:
        await compactor.follow(topics)
    return await compactor.compact(topics)


def _cancel(task: "asyncio.Task[object]") -> None:
    task.cancel()


@table.command("list", epilog="Example: headwater table list --json")
@as_json
@location_options
def list_(settings: "Settings", *, as_json: bool) -> None:
    """List the topics with their tables."""
    found = run_to_end(_facts(settings, ()))
    if as_json:
        print_json([facts.as_json() for facts in found])
        return
    print_table(
        ["Topic", "Table", "Records", "Files", "Size", "Waiting"],
        [
            (
                each.topic,
                each.name or "-",
                each.records,
                each.files,
                byte_size(each.size),
                each.waiting,
            )
            for each in found
        ],
    )


@table.command(epilog="Example: headwater table describe orders")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@as_json
@location_options
def describe(settings: "Settings", *, topics: tuple[str, ...], as_json: bool) -> None:
    """Show tables with their location and the progress of each partition."""
    found = run_to_end(_facts(settings, topics))
    if as_json:
        print_json([facts.as_json() for facts in found])
        return
    for facts in found:
        _print_facts(facts)


def _print_facts(facts: "TableFacts") -> None:
    name = facts.name or f"no table, compacted to {facts.target}"
    click.echo(
        f"{facts.topic}  {name}, {counted(facts.records, 'record')}, "
        f"{counted(facts.files, 'file')}, {byte_size(facts.size)}, "
        f"{counted(facts.snapshots, 'snapshot')}"
    )
    click.echo(f"  location {facts.location or '-'}")
    click.echo(f"  metadata {facts.metadata or '-'}")
    print_table(
        ["Partition", "Log start", "End", "Compacted to", "Waiting"],
        [
            (each.partition, each.log_start, each.end, each.next_offset, each.waiting)
            for each in facts.partitions
        ],
    )


async def _facts(settings: "Settings", topics: Sequence[str]) -> "list[TableFacts]":
    from headwater.extras import require_extra

    require_extra("table", "this command")
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.metadata_reads import read_topics
    from headwater.pipeline.upkeep.table_facts import read_facts

    async with open_cluster_stores(location_of(settings), settings.tables) as stores:
        return [
            await read_facts(stores, topic)
            for topic in await read_topics(stores.meta, topics)
            if topics or not topic.name.startswith("__")
        ]


table.add_command(rewrite)
table.add_command(clean)
table.add_command(maintain)
