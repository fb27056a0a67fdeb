"""``headwater status``: a cluster from its metadata store and its brokers' status pages."""

import click

from headwater.cli.output import as_json


@click.command(epilog="Example: headwater status --data /var/lib/headwater --json")
@click.option(
    "--data", envvar="HEADWATER_DATA", default="headwater-data", show_default=True, metavar="DIR"
)
@click.option("--metadata", envvar="HEADWATER_METADATA", metavar="URL", help="Instead of --data.")
@as_json
def status(data: str, metadata: str | None, *, as_json: bool) -> None:
    """Show a cluster's brokers, what it stores, and what its stores were asked.

    The counts come from the metadata store, so they need no broker; requests to the stores are
    shown for brokers that serve --metrics.
    """
