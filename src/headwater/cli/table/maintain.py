"""``headwater table maintain``: remove deleted records and old snapshots from tables."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import location_options
from headwater.cli.terminal.output import as_json, counted, print_json

if TYPE_CHECKING:
    from headwater.config import Settings
    from headwater.pipeline.fsck.report import CheckWatcher
    from headwater.pipeline.upkeep.maintain import UpkeepSummary


@click.command(epilog="Example: headwater table maintain --json")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@as_json
@location_options
def maintain(settings: "Settings", *, topics: tuple[str, ...], as_json: bool) -> None:
    """Remove deleted records and old snapshots from tables.

    Files whose records were all removed by retention or DeleteRecords leave the table. A file is
    deleted once no kept snapshot names it. `headwater table compact` does the same for the topics
    that it compacts.
    """
    from headwater.cli.table.running import run_to_end
    from headwater.cli.terminal.check_progress import CheckProgress
    from headwater.extras import require_extra

    require_extra("table", "this command")
    with CheckProgress(sys.stderr) as progress:
        summary = run_to_end(_maintain(settings, topics, progress))
    if as_json:
        print_json(summary.as_json())
    else:
        click.echo(
            f"Maintained {counted(summary.tables, 'table')}: released "
            f"{counted(summary.files_let_go, 'file')}, {summary.files_waiting} wait for snapshots "
            f"to expire; expired {counted(summary.snapshots_expired, 'snapshot')}, deleted "
            f"{counted(summary.metadata_deleted, 'metadata file')} in {summary.seconds:.1f} s."
        )
    if summary.failures:
        raise click.ClickException("; ".join(summary.failures))


async def _maintain(
    settings: "Settings", topics: Sequence[str], progress: "CheckWatcher"
) -> "UpkeepSummary":
    from headwater.cli.table.running import location_of
    from headwater.pipeline.cluster_stores import open_cluster_stores
    from headwater.pipeline.upkeep.maintain import keep_tables

    async with open_cluster_stores(location_of(settings), settings.tables) as stores:
        return await keep_tables(stores, topics, progress)
