"""``headwater topic``: create, list, describe, alter and delete topics."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from headwater.cli.client import (
    REQUEST_TIMEOUT,
    ClusterClient,
    cluster_options,
    complete_topic,
    describe,
    pairs,
)
from headwater.cli.terminal.confirm import confirm
from headwater.cli.terminal.output import as_json, counted, print_json, print_table
from headwater.cli.topic.facts import TopicFacts, read_topics

_config = click.option(
    "-c",
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="A topic configuration, such as retention.ms=3600000; repeatable.",
)
_name = click.argument("name", shell_complete=complete_topic)
_names = click.argument("names", nargs=-1, required=True, shell_complete=complete_topic)


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command(epilog="Example: headwater topic create orders -p 6 -c retention.ms=3600000")
@_name
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions.  [the cluster's default]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="For other Kafka clusters; Headwater stores data in the object store.",
)
@_config
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists.")
@as_json
@cluster_options
def create(
    cluster: ClusterClient,
    *,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a topic."""
    from confluent_kafka.admin import NewTopic

    new = NewTopic(
        name,
        num_partitions=partitions or -1,
        replication_factor=replication_factor or -1,
        config=configs,
    )
    admin = cluster.admin()
    created = not (if_not_exists and name in admin.list_topics(timeout=REQUEST_TIMEOUT).topics)
    if created:
        _finish(admin.create_topics([new], operation_timeout=REQUEST_TIMEOUT))
    if as_json:
        print_json({"topic": name, "created": created})
    else:
        click.echo(f"Created topic {name}." if created else f"Topic {name} already exists.")


@topic.command("list", epilog="Example: headwater topic list --json")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@as_json
@cluster_options
def list_(cluster: ClusterClient, *, internal: bool, as_json: bool) -> None:
    """List the topics and their partitions."""
    topics = cluster.admin().list_topics(timeout=REQUEST_TIMEOUT).topics.values()
    shown = sorted(
        (each.topic, len(each.partitions))
        for each in topics
        if internal or not each.topic.startswith("__")
    )
    if as_json:
        print_json([{"topic": name, "partitions": count} for name, count in shown])
    else:
        print_table(["Topic", "Partitions"], shown)


@topic.command("describe", epilog="Example: headwater topic describe orders --all-configs")
@_names
@click.option("--all-configs", is_flag=True, help="Include defaults.")
@as_json
@cluster_options
def describe_(
    cluster: ClusterClient, names: tuple[str, ...], *, all_configs: bool, as_json: bool
) -> None:
    """Show topics with their partitions, offsets and configurations."""
    found = read_topics(cluster.admin(), names, all_configs=all_configs)
    if as_json:
        print_json([facts.as_json() for facts in found])
        return
    for facts in found:
        _print_topic(facts)


@topic.command(epilog="Example: headwater topic alter orders --partitions 12 -c retention.ms=-1")
@_name
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="New number of partitions.")
@_config
@click.option(
    "-d",
    "--delete-config",
    "unset",
    multiple=True,
    metavar="NAME",
    help="Reset this configuration to its default; repeatable.",
)
@as_json
@cluster_options
def alter(
    cluster: ClusterClient,
    *,
    name: str,
    partitions: int | None,
    configs: dict[str, str],
    unset: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change a topic's configurations or add partitions."""
    if partitions is None and not configs and not unset:
        raise click.UsageError("give --partitions, --config or --delete-config")
    admin = cluster.admin()
    if unset:
        _check_names(admin, name, unset)
    for validate_only in (True, False):
        if configs or unset:
            _change_configs(admin, name, configs, unset, validate_only=validate_only)
        if partitions is not None:
            _grow(admin, name, partitions, validate_only=validate_only)
    if as_json:
        print_json(
            {"topic": name, "partitions": partitions, "set": configs, "deleted": list(unset)}
        )
    else:
        click.echo(f"Altered topic {name}.")


@topic.command(epilog="Example: headwater topic delete orders --yes")
@_names
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@as_json
@cluster_options
def delete(cluster: ClusterClient, names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Delete topics with all their records."""
    if not yes:
        confirm(f"Delete {', '.join(names)} with all records?")
    admin = cluster.admin()
    _finish(admin.delete_topics(list(names), operation_timeout=REQUEST_TIMEOUT))
    if as_json:
        print_json([{"topic": name, "deleted": True} for name in names])
    else:
        for name in names:
            click.echo(f"Deleted topic {name}.")


def _check_names(admin: Any, topic: str, names: Sequence[str]) -> None:
    """Raises ``ClickException`` for an unknown configuration, which brokers would accept."""
    from confluent_kafka.admin import ConfigResource, ResourceType

    asked = [ConfigResource(ResourceType.TOPIC, topic)]
    [(_, future)] = admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT).items()
    known = future.result()
    if unknown := [name for name in names if name not in known]:
        raise click.ClickException(f"{topic} has no configuration {', '.join(unknown)}")


def _change_configs(
    admin: Any, topic: str, configs: Mapping[str, str], unset: Sequence[str], *, validate_only: bool
) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    changes = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in unset]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    _finish(
        admin.incremental_alter_configs(
            [resource], request_timeout=REQUEST_TIMEOUT, validate_only=validate_only
        )
    )


def _grow(admin: Any, topic: str, partitions: int, *, validate_only: bool) -> None:
    from confluent_kafka.admin import NewPartitions

    _finish(
        admin.create_partitions(
            [NewPartitions(topic, partitions)],
            operation_timeout=REQUEST_TIMEOUT,
            validate_only=validate_only,
        )
    )


def _finish(futures: dict[Any, Any]) -> None:
    """Wait for all. Raises ``ClickException`` with all failures in one line."""
    from confluent_kafka import KafkaException

    failed: list[str] = []
    for what, future in futures.items():
        try:
            future.result(REQUEST_TIMEOUT * 2)
        except KafkaException as error:
            failed.append(f"{getattr(what, 'name', what)}: {describe(error.args[0])}")
    if failed:
        raise click.ClickException("; ".join(failed))


def _print_topic(facts: TopicFacts) -> None:
    partitions = counted(len(facts.partitions), "partition")
    head = f"{facts.name}  {partitions}, {counted(facts.records, 'record')}"
    click.echo(f"{head}, id {facts.id}" if facts.id else head)
    for name, value in sorted(facts.configs.items()):
        click.echo(f"  {name}={value}")
    print_table(
        ["Partition", "Leader", "Earliest", "Latest", "Records"],
        [
            (each.partition, each.leader, each.earliest, each.latest, each.records)
            for each in facts.partitions
        ],
    )
