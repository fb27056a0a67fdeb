"""``headwater table clean``: key compaction."""

from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import location_options
from headwater.cli.table.jobs import run_jobs
from headwater.cli.terminal.output import as_json

if TYPE_CHECKING:
    from headwater.config import Settings


@click.command(epilog="Example: headwater table clean accounts")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@as_json
@location_options
def clean(
    settings: "Settings", *, topics: tuple[str, ...], master: str | None, as_json: bool
) -> None:
    """Keep the last record of each key (cleanup.policy=compact), on Spark.

    Without TOPIC: all compacted topics that have a table. Records younger than
    min.compaction.lag.ms stay. A tombstone stays for delete.retention.ms after its first cleaning.
    `headwater table compact --follow` does the same whenever min.cleanable.dirty.ratio is reached.
    """
    run_jobs(
        settings,
        master,
        lambda compactor: compactor.clean(topics),
        done="Cleaned",
        as_json=as_json,
    )
