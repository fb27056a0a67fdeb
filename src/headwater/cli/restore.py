"""``headwater restore``: rebuild a lost metadata store from the objects."""

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

MAX_NAMED = 20

_EPILOG = """\b
Examples:
  headwater restore --metadata etcd://10.0.0.5:2379/prod --objects s3://bucket/prod --dry-run
  headwater restore --metadata etcd://10.0.0.5:2379/prod --objects s3://bucket/prod
  headwater restore --list --objects s3://bucket/prod

See docs/how-to/cluster.md for what a restore recovers and what it cannot.
"""


@click.command(epilog=_EPILOG)
@click.option("--snapshot", metavar="KEY", help="Snapshot to restore.  [the newest]")
@click.option("--list", "list_only", is_flag=True, help="Only list the snapshots.")
@click.option("--dry-run", is_flag=True, help="Show what would be restored; write nothing.")
@click.option(
    "--no-wait",
    is_flag=True,
    help="Skip the 15 s wait for running brokers, because all brokers are stopped.",
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

    Stop all brokers first. The target metadata store must be empty. The restore loads the newest
    snapshot, then recovers records that were written to objects after it: those in files and
    merged objects keep their offsets, others are appended after them. Before it reads objects, it
    waits 15 s so that brokers that still run notice that they are superseded. Then it sets tables
    to the content of the log. The cluster gets a new restore epoch, so consumers that were ahead
    of the restored log detect the truncation.
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
    from headwater.log.restore.restore import restore as restore_cluster
    from headwater.meta.urls import open_store
    from headwater.pipeline.upkeep.table_restores import TableHoldings

    url = settings.metadata_url
    if dry_run and missing_file(url) is not None:
        url = "memory://"  # empty, as the new file would be
    async with existing_objects(settings) as objects:
        meta = await open_store(url, SystemClock())
        try:
            return await restore_cluster(
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
    """Set tables to the content of the log; None if pyiceberg is not installed."""
    import importlib.util

    from headwater.cli.table.running import location_of
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.upkeep.table_restores import settle_tables

    if importlib.util.find_spec("pyiceberg") is None:
        return None
    async with open_cluster_stores(location_of(settings), settings.tables) as stores:
        return await settle_tables(stores)


def _as_json(
    done: "Restoration", tables: "SettledTables | None", *, dry_run: bool
) -> dict[str, Any]:
    import msgspec

    answer = asdict(done)
    answer["description"] = msgspec.to_builtins(done.description)
    answer["found"]["strangers"] = sorted(done.found.strangers)
    answer["tables"] = None if tables is None else asdict(tables)
    return {**answer, "dry_run": dry_run}


def _print(done: "Restoration", *, dry_run: bool) -> None:
    from headwater.cli.cluster.facts import moment

    of, found = done.description, done.found
    verb = "Would restore" if dry_run else "Restored"
    click.echo(
        f"{verb} cluster {of.cluster} from its snapshot of {moment(of.taken_ms)}: "
        f"{counted(done.topics, 'topic')}, {counted(done.streams, 'partition')}, "
        f"{counted(done.keys, 'key')}; the new restore epoch is {done.epoch}."
    )
    click.echo(
        f"Newer records recovered from objects: {found.records} ({byte_size(found.bytes)}), "
        f"including {counted(found.files, 'table file')}; "
        f"duplicate batches skipped: {found.duplicates}."
    )
    if found.lost:
        click.echo(f"Lost records among these: {counted(found.lost, 'offset')}.")
    if found.strangers:
        click.echo(
            f"Not restored: the records of {counted(len(found.strangers), 'partition')} whose "
            "topics are not in the snapshot."
        )
    if found.unplaced:
        click.echo(
            f"Kept {counted(len(found.unplaced), 'object')} with records that have no place in "
            "the log:"
        )
        for key in found.unplaced[:MAX_NAMED]:
            click.echo(f"  {key}")
        if len(found.unplaced) > MAX_NAMED:
            click.echo(f"  and {len(found.unplaced) - MAX_NAMED} more: --json names all")
    click.echo(
        "A restore cannot recover inline records that were committed after the snapshot and "
        "neither merged nor compacted, nor newer topics, configurations and committed offsets."
    )


def _print_tables(tables: "SettledTables | None") -> None:
    if tables is None:
        return
    if tables.tables:
        click.echo(
            f"Set {counted(len(tables.tables), 'table')} to the content of the log: "
            f"{counted(len(tables.removed), 'file')} removed, {len(tables.added)} added."
        )
    for failure in tables.failures:
        click.echo(f"Not set yet; the next compaction will do it: {failure}")
