"""``headwater cluster``: show brokers, drain them, and finalize upgrades.

All commands use the metadata store only, so they run on any host that can connect to it.
"""

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from headwater.cli.store_options import store_options
from headwater.cli.terminal.confirm import confirm
from headwater.cli.terminal.output import as_json, print_json, print_table

if TYPE_CHECKING:
    from headwater.cli.cluster.facts import BrokerFacts, ClusterFacts
    from headwater.config import Settings

_EPILOG = """\b
Examples:
  headwater cluster status --metadata etcd://10.0.0.5:2379/prod
  headwater cluster drain 2 --timeout 300
  headwater cluster finalize
"""


@click.group(epilog=_EPILOG)
def cluster() -> None:
    """Show and drain brokers, and finalize upgrades."""


@cluster.command(epilog="Example: headwater cluster status --data /var/lib/headwater --json")
@as_json
@store_options
def status(settings: "Settings", *, as_json: bool) -> None:
    """Show live brokers, the feature level and the last snapshot."""
    from headwater.cli.cluster.facts import look

    facts = asyncio.run(look(settings.metadata_url))
    if as_json:
        print_json(asdict(facts))
    else:
        _print(facts)


@cluster.command(epilog="Example: headwater cluster drain 2 && ssh broker-2 systemctl stop ...")
@click.argument("broker", type=click.IntRange(min=0))
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait until it is drained (or serves again); 0: do not wait.",
)
@click.option("--cancel", is_flag=True, help="Cancel the drain: the broker serves again.")
@as_json
@store_options
def drain(
    settings: "Settings", broker: int, timeout: float, *, cancel: bool, as_json: bool
) -> None:
    """Move a broker's clients to other brokers and wait.

    Metadata no longer names the broker, its groups move to other brokers, and its remaining
    clients are redirected. Stop the broker once it is drained. A restarted broker is not draining.
    The exit code is 1 if the broker was not drained in time.
    """
    from headwater.broker.cluster.registration import DRAINED, SERVING
    from headwater.cli.cluster.drain import DrainProgress, cancel_drain, drain_broker

    if cancel:
        found, asked = asyncio.run(cancel_drain(settings.metadata_url, broker, timeout))
        if as_json:
            print_json(asdict(found))
        elif asked:
            again = "it serves again" if found.state == SERVING else f"it is still {found.state}"
            click.echo(f"Cancelled the drain of broker {broker}; {again}.")
        else:
            click.echo(f"Broker {broker} was not draining; nothing was changed.")
        return
    with DrainProgress(sys.stderr, broker) as progress:
        found = asyncio.run(drain_broker(settings.metadata_url, broker, timeout, progress.at))
    if as_json:
        print_json(asdict(found))
    else:
        click.echo(_drain_line(found))
    if timeout and found.state != DRAINED:
        sys.exit(1)


@cluster.command(
    epilog="Examples: headwater cluster finalize --dry-run; headwater cluster finalize --yes"
)
@click.option("--level", type=click.IntRange(min=1), help="[the highest that all brokers support]")
@click.option("--dry-run", is_flag=True, help="Show the change only.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@as_json
@store_options
def finalize(
    settings: "Settings", level: int | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Raise the feature level after all brokers are upgraded.

    Brokers then write the formats of the new version. Versions that do not support the new feature
    level cannot start on this cluster afterwards. This cannot be undone.
    """
    from headwater.cli.cluster.facts import finalize_cluster

    if not dry_run and not yes:
        planned = asyncio.run(finalize_cluster(settings.metadata_url, level, dry_run=True))
        if planned.before != planned.after:
            confirm(
                f"Raise the feature level from {planned.before} to {planned.after}? This cannot be "
                "undone: older versions will not start on this cluster."
            )
    done = asyncio.run(finalize_cluster(settings.metadata_url, level, dry_run=dry_run))
    if as_json:
        print_json({"before": done.before, "after": done.after, "dry_run": dry_run})
    elif done.before == done.after:
        click.echo(f"The cluster is at feature level {done.after}; there is nothing to finalize.")
    elif dry_run:
        click.echo(f"Would raise the feature level from {done.before} to {done.after}.")
    else:
        click.echo(f"Raised the feature level from {done.before} to {done.after}.")


def _drain_line(found: "BrokerFacts") -> str:
    if found.state == "drained":
        return f"Broker {found.id} is drained; you can stop it."
    left = f"{found.groups} group shards left" if found.groups else "no group shards left"
    active = "clients still send requests" if found.active else "no client sends requests"
    if found.state != "draining":
        return f"Broker {found.id} has not begun to drain yet; --cancel cancels the request."
    return f"Broker {found.id} is draining: {left}, {active}; --cancel cancels the drain."


def _print(facts: "ClusterFacts") -> None:
    click.echo(
        f"Cluster {facts.cluster_id or '(no broker has run here yet)'}, "
        f"feature level {facts.level}, restore epoch {facts.epoch}"
    )
    print_table(
        ["Broker", "Address", "Rack", "State", "Epoch", "Levels", "Group shards"],
        [
            (
                each.id,
                each.address,
                each.rack,
                each.state,
                each.epoch,
                f"{each.levels[0]}-{each.levels[1]}",
                each.shards,
            )
            for each in facts.brokers
        ],
        title="Live brokers" if facts.brokers else "No live brokers",
    )
    if facts.can_finalize is not None:
        click.echo(
            f"All brokers support feature level {facts.can_finalize}; "
            "run headwater cluster finalize to use it."
        )
    if facts.snapshot is not None:
        click.echo(f"Last metadata snapshot: {facts.snapshot.taken}, {facts.snapshot.key}")
    else:
        click.echo("No metadata snapshot yet.")
