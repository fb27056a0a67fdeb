"""``headwater cluster``: who is in a cluster, and how brokers leave and are upgraded.

Everything goes through the metadata store, so it works from any machine that reaches it.
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
    """Show a cluster's brokers, drain one, finalize an upgrade."""


@cluster.command(epilog="Example: headwater cluster status --data /var/lib/headwater --json")
@as_json
@store_options
def status(settings: "Settings", *, as_json: bool) -> None:
    """Show the live brokers, what each is doing, the feature level and the last snapshot."""
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
    help="How long to wait until it is drained, or serves again; 0 only asks.",
)
@click.option("--cancel", is_flag=True, help="Take the request back: the broker serves again.")
@as_json
@store_options
def drain(
    settings: "Settings", broker: int, timeout: float, *, cancel: bool, as_json: bool
) -> None:
    """Let a broker's clients go to the others, and wait until they have.

    The broker leaves the metadata that clients see, hands its groups over, and sends whoever
    still asks it for data to the others. It can be stopped once it is drained; a broker that is
    started again is not draining. The exit code is 1 where it was not drained in time.
    """
    from headwater.broker.cluster.registration import DRAINED, SERVING
    from headwater.cli.cluster.drain import DrainProgress, cancel_drain, drain_broker

    if cancel:
        found, asked = asyncio.run(cancel_drain(settings.metadata_url, broker, timeout))
        if as_json:
            print_json(asdict(found))
        elif asked:
            again = "and serves again" if found.state == SERVING else f"and is {found.state} still"
            click.echo(f"Broker {broker} is no longer asked to drain, {again}.")
        else:
            click.echo(f"Broker {broker} was not asked to drain; nothing was changed.")
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
@click.option("--level", type=click.IntRange(min=1), help="[the highest that all brokers speak]")
@click.option("--dry-run", is_flag=True, help="Say what would be finalized, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@as_json
@store_options
def finalize(
    settings: "Settings", level: int | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Let brokers write the formats of the release that all of them run.

    Do this after the last broker was upgraded and runs well: releases that do not speak the new
    feature level no longer start afterwards. This cannot be undone.
    """
    from headwater.cli.cluster.facts import finalize_cluster

    if not dry_run and not yes:
        planned = asyncio.run(finalize_cluster(settings.metadata_url, level, dry_run=True))
        if planned.before != planned.after:
            confirm(
                f"Raise the feature level from {planned.before} to {planned.after} for good? "
                "Older releases will not start on this cluster again."
            )
    done = asyncio.run(finalize_cluster(settings.metadata_url, level, dry_run=dry_run))
    if as_json:
        print_json({"before": done.before, "after": done.after, "dry_run": dry_run})
    elif done.before == done.after:
        click.echo(f"The cluster is at feature level {done.after}; there is nothing to finalize.")
    elif dry_run:
        click.echo(f"The cluster would go from feature level {done.before} to {done.after}.")
    else:
        click.echo(f"The cluster is at feature level {done.after} now; it was at {done.before}.")


def _drain_line(found: "BrokerFacts") -> str:
    if found.state == "drained":
        return f"Broker {found.id} is drained: it can be stopped."
    left = f"{found.groups} shards of groups left" if found.groups else "its groups are elsewhere"
    active = "clients still ask it for data" if found.active else "no client asks it for data"
    if found.state != "draining":
        return f"Broker {found.id} is asked to drain and has not begun yet; --cancel takes it back."
    return f"Broker {found.id} is draining: {left}, {active}; --cancel takes it back."


def _print(facts: "ClusterFacts") -> None:
    click.echo(
        f"Cluster {facts.cluster_id or '(no broker has run here yet)'}, "
        f"feature level {facts.level}, restore epoch {facts.epoch}"
    )
    print_table(
        ["Broker", "Address", "Rack", "State", "Epoch", "Speaks", "Groups' shards"],
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
            f"All brokers speak feature level {facts.can_finalize}: "
            "headwater cluster finalize brings the cluster there."
        )
    if facts.snapshot is not None:
        click.echo(f"Last snapshot of the metadata: {facts.snapshot.taken}, {facts.snapshot.key}")
    else:
        click.echo("No snapshot of the metadata yet.")
