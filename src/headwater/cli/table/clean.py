"""``headwater table clean``: the last record of each key."""

from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import place_options
from headwater.cli.table.jobs import run_jobs
from headwater.cli.terminal.output import as_json

if TYPE_CHECKING:
    from headwater.config import Settings


@click.command(epilog="Example: headwater table clean accounts")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@as_json
@place_options
def clean(
    settings: "Settings", *, topics: tuple[str, ...], master: str | None, as_json: bool
) -> None:
    """Keep the last record of each key in topics with cleanup.policy=compact, on Spark.

    All such topics where none is named, as far as they are compacted to tables. Records younger
    than min.compaction.lag.ms stay; a tombstone stays for delete.retention.ms after it was
    cleaned first. `headwater table compact --follow` does the same now and then, by
    min.cleanable.dirty.ratio.
    """
    run_jobs(
        settings,
        master,
        lambda compactor: compactor.clean(topics),
        done="Cleaned",
        as_json=as_json,
    )
