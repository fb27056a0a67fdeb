"""``headwater table rewrite``: join small files of tables."""

from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import location_options
from headwater.cli.table.jobs import run_jobs
from headwater.cli.terminal.output import as_json

if TYPE_CHECKING:
    from headwater.config import Settings


@click.command(epilog="Example: headwater table rewrite orders")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--master", metavar="URL", help="Spark's master.  [local[*]]")
@as_json
@location_options
def rewrite(
    settings: "Settings", *, topics: tuple[str, ...], master: str | None, as_json: bool
) -> None:
    """Rewrite small files of tables into large ones, on Spark.

    Without TOPIC: all topics. The records do not change. Brokers and queries can run at the same
    time. The next run continues an interrupted one.
    """
    run_jobs(
        settings,
        master,
        lambda compactor: compactor.rewrite(topics),
        done="Rewrote",
        as_json=as_json,
    )
