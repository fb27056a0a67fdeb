"""``headwater restore``: a cluster back from its objects after its metadata store was lost."""

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headwater.cli.store_options import store_options
from headwater.cli.terminal.output import as_json, byte_size, counted, print_json

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.log.restore.restore import Restoration, Watch
    from headwater.pipeline.upkeep.table_restores import SettledTables

MOST_NAMED = 20

_EPILOG = """\b
Examples:
  headwater restore --metadata etcd://10.0.0.5:2379/prod --objects s3://bucket/prod --dry-run
  headwater restore --metadata etcd://10.0.0.5:2379/prod --objects s3://bucket/prod
  headwater restore --list --objects s3://bucket/prod

What comes back, and what cannot: docs/how-to/cluster.md.
"""


@click.command(epilog=_EPILOG)
@click.option("--snapshot", metavar="KEY", help="Which snapshot.  [the newest]")
@click.option("--list", "list_only", is_flag=True, help="List the snapshots, and do nothing else.")
@click.option("--dry-run", is_flag=True, help="Say what would come back, and write nothing.")
@click.option(
    "--no-wait",
    is_flag=True,
    help="Do not wait 15 s for brokers that were left running: all of them are stopped.",
)
@as_json
@store_options
def restore(
    settings: "Settings",
    snapshot: str | None,
    *,
    list_only: bool,
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Restore a cluster's metadata from its objects.

    The metadata store that it is restored into has to be empty. Stop all brokers first. The newest
    snapshot is taken, and records that were written to objects after it are put back: those of
    files and merged objects at their offsets, others behind them. Before they are read, brokers
    that were left running with another metadata store get 15 s to notice that they are superseded.
    Tables are set to what the log holds then. The cluster gets a new restore epoch, so that
    consumers which had read further than what came back learn of it.
    """
    from headwater.cli.terminal.check_progress import CheckProgress

    if list_only:
        names = asyncio.run(_list(settings))
        if as_json:
            print_json(names)
        else:
            click.echo("\n".join(names) or "There are no snapshots.")
        return
    with CheckProgress(sys.stderr) as progress:
        work = _restore(settings, snapshot, progress.at, dry_run=dry_run, wait=not no_wait)
        done = asyncio.run(work)
    tables = None if dry_run else asyncio.run(_settle(settings))
    if as_json:
        print_json(_as_json(done, tables, dry_run=dry_run))
    else:
        _print(done, dry_run=dry_run)
        _print_tables(tables)


async def _list(settings: "Settings") -> list[str]:
    from headwater.cli.objects import existing_objects
    from headwater.log.restore.restore import snapshots_in

    async with existing_objects(settings) as objects:
        return await snapshots_in(objects)


async def _restore(
    settings: "Settings", snapshot: str | None, watch: "Watch", *, dry_run: bool, wait: bool
) -> "Restoration":
    from headwater.cli.cluster.facts import missing_file
    from headwater.cli.objects import existing_objects
    from headwater.clock import SystemClock
    from headwater.log.restore.claim import SUPERSEDED_SECONDS
    from headwater.log.restore.restore import restore as bring_back
    from headwater.meta.urls import open_store
    from headwater.pipeline.upkeep.table_restores import TableHoldings

    url = settings.metadata_url
    if dry_run and missing_file(url) is not None:
        url = "memory://"  # as empty as the file would be
    async with existing_objects(settings) as objects:
        meta = await open_store(url, SystemClock())
        try:
            return await bring_back(
                meta,
                objects,
                SystemClock(),
                snapshot=snapshot,
                dry_run=dry_run,
                wait_s=SUPERSEDED_SECONDS if wait else 0,
                watch=watch,
                holdings=TableHoldings(objects, settings.objects_url),
            )
        finally:
            await meta.close()


async def _settle(settings: "Settings") -> "SettledTables | None":
    """Set tables to what the log holds; None where nothing here reads tables."""
    import importlib.util

    from headwater.cli.table.running import address_of
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.upkeep.table_restores import settle_tables

    if importlib.util.find_spec("pyiceberg") is None:
        return None
    async with open_cluster_stores(address_of(settings), settings.tables) as stores:
        return await settle_tables(stores)


def _as_json(
    done: "Restoration", tables: "SettledTables | None", *, dry_run: bool
) -> dict[str, Any]:
    import msgspec

    told = asdict(done)
    told["description"] = msgspec.to_builtins(done.description)
    told["found"]["strangers"] = sorted(done.found.strangers)
    told["tables"] = None if tables is None else asdict(tables)
    return {**told, "dry_run": dry_run}


def _print(done: "Restoration", *, dry_run: bool) -> None:
    from headwater.cli.cluster.facts import moment

    of, found = done.description, done.found
    verb = "Would restore" if dry_run else "Restored"
    click.echo(
        f"{verb} cluster {of.cluster} as it was at {moment(of.taken_ms)}: "
        f"{counted(done.topics, 'topic')}, {counted(done.streams, 'partition')}, "
        f"{counted(done.keys, 'key')}; its restore epoch is {done.epoch}."
    )
    click.echo(
        f"Newer records that were found in objects: {found.records} ({byte_size(found.bytes)}), "
        f"{counted(found.files, 'file')} of tables among them; "
        f"batches that were there already: {found.duplicates}."
    )
    if found.lost:
        click.echo(f"Lost between them: the records of {counted(found.lost, 'offset')}.")
    if found.strangers:
        click.echo(
            f"Not restored: records of {counted(len(found.strangers), 'partition')} whose topics "
            "are not in the snapshot."
        )
    if found.unplaced:
        click.echo(
            f"Kept, because it has records without a place in the log: "
            f"{counted(len(found.unplaced), 'object')}."
        )
        for key in found.unplaced[:MOST_NAMED]:
            click.echo(f"  {key}")
        if len(found.unplaced) > MOST_NAMED:
            click.echo(f"  and {len(found.unplaced) - MOST_NAMED} more: --json names all")
    click.echo(
        "Not to be found in objects: records that were committed inline after the snapshot and "
        "neither merged nor compacted, and topics, settings and committed offsets that are newer."
    )


def _print_tables(tables: "SettledTables | None") -> None:
    if tables is None:
        return
    if tables.tables:
        click.echo(
            f"Set to what the log holds: {counted(len(tables.tables), 'table')}; "
            f"{counted(len(tables.removed), 'file')} cut, {len(tables.added)} added."
        )
    for failure in tables.failures:
        click.echo(f"Not set yet, the next compaction does it: {failure}")
