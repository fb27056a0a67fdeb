"""``headwater table rewrite``: large files instead of many small ones."""

from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import place_options
from headwater.cli.table.jobs import run_jobs
from headwater.cli.terminal.output import as_json

if TYPE_CHECKING:
    from headwater.config import Settings


@click.command(epilog="Example: headwater table rewrite orders")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@as_json
@place_options
def rewrite(
    settings: "Settings", *, topics: tuple[str, ...], master: str | None, as_json: bool
) -> None:
    """Make large files of the small ones in topics' tables, on Spark.

    All topics where none is named. The records stay as they are; brokers and queries go on
    meanwhile. A run that was interrupted is taken up by the next one.
    """
    run_jobs(
        settings,
        master,
        lambda compactor: compactor.rewrite(topics),
        done="Rewrote",
        as_json=as_json,
    )
