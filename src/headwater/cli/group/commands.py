"""``headwater group``: list, describe, reset and delete consumer groups."""

from typing import Any

import click

from headwater.cli.client import REQUEST_TIMEOUT, ClusterClient, cluster_options, describe
from headwater.cli.group.facts import (
    STATES,
    TYPES,
    GroupFacts,
    committed_offsets,
    describe_groups,
    read_groups,
    state_name,
    type_name,
)
from headwater.cli.group.options import complete_group, rule_options, topic_option
from headwater.cli.group.reset import Rule, choose, commit, out_of_range_note, plan, read_bounds
from headwater.cli.terminal.confirm import confirm
from headwater.cli.terminal.output import as_json, counted, print_json, print_table

_names = click.argument("names", nargs=-1, required=True, shell_complete=complete_group)


@click.group()
def group() -> None:
    """List, describe, reset and delete consumer groups."""


@group.command("list", epilog="Example: headwater group list --state Stable --json")
@click.option(
    "--state",
    "states",
    type=click.Choice(list(STATES.values()), case_sensitive=False),
    multiple=True,
    help="Only groups in this state; repeatable.",
)
@click.option(
    "--type",
    "types",
    type=click.Choice(list(TYPES.values()), case_sensitive=False),
    multiple=True,
    help="Only groups of this type; repeatable.",
)
@as_json
@cluster_options
def list_(
    cluster: ClusterClient, *, states: tuple[str, ...], types: tuple[str, ...], as_json: bool
) -> None:
    """List the groups with their state, type and number of members."""
    admin = cluster.admin()
    names = _group_names(admin, states, types)
    found = describe_groups(admin, names) if names else {}
    rows = [
        (name, state_name(each), type_name(each), len(each.members))
        for name, each in found.items()
        if each is not None
    ]
    if as_json:
        print_json(
            [
                {"group": name, "state": state, "type": kind, "members": members}
                for name, state, kind, members in rows
            ]
        )
    else:
        print_table(["Group", "State", "Type", "Members"], rows)


@group.command(
    "describe",
    epilog="\b\nExamples:\n"
    "  headwater group describe billing\n"
    "  headwater group describe billing shipping --members\n"
    "  headwater group describe --all --json",
)
@click.argument("names", nargs=-1, shell_complete=complete_group)
@click.option("--all", "everything", is_flag=True, help="All groups.")
@click.option("--members", is_flag=True, help="Show the members instead of the partitions.")
@as_json
@cluster_options
def describe_(
    cluster: ClusterClient,
    names: tuple[str, ...],
    *,
    everything: bool,
    members: bool,
    as_json: bool,
) -> None:
    """Show groups with their offsets, lag and members.

    The lag of a partition is its end minus its committed offset. The total lag covers partitions
    that have a committed offset.
    """
    if bool(names) == everything:
        raise click.UsageError("give the names of groups, or --all")
    admin = cluster.admin()
    wanted = list(names) or _group_names(admin, (), ())
    found = read_groups(admin, wanted) if wanted else []
    if as_json:
        print_json([facts.as_json() for facts in found])
        return
    for facts in found:
        _print_head(facts)
        if members:
            _print_members(facts)
        else:
            _print_partitions(facts)


@group.command(
    epilog="\b\nExamples:\n"
    "  headwater group reset billing --to-earliest\n"
    "  headwater group reset billing --topic orders:0,1 --to-offset 42 --execute\n"
    "  headwater group reset billing --to-datetime 2026-01-31T12:00:00Z --execute\n"
    "  headwater group reset billing --by-duration 90m --execute\n"
    "  headwater group reset billing --shift-by -100 --execute",
)
@click.argument("name", shell_complete=complete_group)
@topic_option
@rule_options
@click.option("--execute", is_flag=True, help="Execute the plan; without this it is only shown.")
@as_json
@cluster_options
def reset(
    cluster: ClusterClient,
    *,
    name: str,
    topics: list[tuple[str, frozenset[int]]],
    rule: Rule,
    execute: bool,
    as_json: bool,
) -> None:
    """Change the committed offsets of a group without members.

    Prints a plan; nothing changes without --execute. An offset outside the partition's range is
    replaced by the partition's start or end. With --topic, a missing group is created.
    """
    admin = cluster.admin()
    _refuse_members(admin, name, new_is_fine=bool(topics))
    committed = committed_offsets(admin, name)
    places = choose(admin, topics, committed)
    bounds = read_bounds(admin, rule, places)
    if not bounds:
        raise click.ClickException(
            f"group {name} has no committed offsets; name its topics with --topic"
        )
    moves = plan(rule, committed, bounds)
    if execute:
        commit(admin, name, moves)
    if as_json:
        print_json(
            {"group": name, "executed": execute, "partitions": [each.as_json() for each in moves]}
        )
        return
    print_table(
        ["Topic", "Partition", "Current", "New", "New lag"],
        [(each.topic, each.partition, each.current, each.new, each.lag) for each in moves],
    )
    if (outside := out_of_range_note(moves)) is not None:
        click.echo(outside, err=True)
    done = f"Reset {counted(len(moves), 'partition')} of group {name}."
    click.echo(
        done if execute else "Nothing was changed; add --execute to apply the plan.", err=True
    )


@group.command(epilog="Example: headwater group delete billing --yes")
@_names
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@as_json
@cluster_options
def delete(cluster: ClusterClient, names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Delete groups that have no members, with their committed offsets."""
    names = tuple(dict.fromkeys(names))
    if not yes:
        confirm(f"Delete {', '.join(names)} with all committed offsets?")
    admin = cluster.admin()
    futures = admin.delete_consumer_groups(list(names), request_timeout=REQUEST_TIMEOUT)
    outcomes = {name: _refusal(name, futures[name]) for name in names}
    deleted = [name for name, refusal in outcomes.items() if refusal is None]
    if as_json:
        print_json(
            [
                {"group": name, "deleted": refusal is None, "error": refusal}
                for name, refusal in outcomes.items()
            ]
        )
    else:
        for name in deleted:
            click.echo(f"Deleted group {name}.")
    if refused := [refusal for refusal in outcomes.values() if refusal is not None]:
        raise click.ClickException("; ".join(refused))


def _group_names(admin: Any, states: tuple[str, ...], types: tuple[str, ...]) -> list[str]:
    """The sorted names of groups. Raises if a broker did not answer: its groups are missing."""
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    wanted: dict[str, Any] = {}
    if states:
        chosen = {name.casefold() for name in states}
        wanted["states"] = {
            ConsumerGroupState[ours] for ours, name in STATES.items() if name.casefold() in chosen
        }
    if types:
        wanted["types"] = {ConsumerGroupType[name.upper()] for name in types}
    listed = admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT, **wanted).result()
    if listed.errors:
        raise listed.errors[0]
    return sorted(each.group_id for each in listed.valid)


def _refuse_members(admin: Any, name: str, *, new_is_fine: bool) -> None:
    found = describe_groups(admin, [name])[name]
    if found is None and not new_is_fine:
        raise click.ClickException(
            f"group {name} does not exist; name its topics with --topic to create it"
        )
    if found is not None and found.members:
        members = counted(len(found.members), "member")
        raise click.ClickException(
            f"group {name} has {members} ({state_name(found)}); stop them before a reset"
        )


def _refusal(name: str, future: Any) -> str | None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        future.result()
    except KafkaException as raised:
        error = raised.args[0]
        if error.code() == KafkaError.NON_EMPTY_GROUP:
            return f"group {name} has members; stop them first"
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return f"group {name} does not exist"
        return f"{name}: {describe(error)}"
    return None


def _print_head(facts: GroupFacts) -> None:
    members = counted(len(facts.members), "member")
    open_ended = sum(1 for each in facts.partitions if each.committed is None)
    head = (
        f"{facts.name}  {facts.state}, {facts.type}, {members}, total lag {facts.lag}"
        f"{f' ({open_ended} without a committed offset)' if open_ended else ''}"
    )
    assignor = f", assignor {facts.assignor}" if facts.assignor else ""
    click.echo(f"{head}, coordinator {facts.coordinator}{assignor}")


def _print_partitions(facts: GroupFacts) -> None:
    print_table(
        ["Topic", "Partition", "Committed", "End", "Lag", "Member", "Client", "Host"],
        [
            (
                each.topic,
                each.partition,
                each.committed,
                each.end,
                each.lag,
                each.member and each.member.id,
                each.member and each.member.client,
                each.member and each.member.host,
            )
            for each in facts.partitions
        ],
    )


def _print_members(facts: GroupFacts) -> None:
    print_table(
        ["Member", "Instance", "Client", "Host", "Partitions", "Assignment"],
        [
            (
                each.id,
                each.instance,
                each.client,
                each.host,
                len(each.partitions),
                format_assignment(each.partitions),
            )
            for each in facts.members
        ],
    )


def format_assignment(partitions: tuple[tuple[str, int], ...]) -> str | None:
    """Partitions by topic; None if there are none.

    >>> format_assignment((("orders", 0), ("orders", 1), ("stock", 2)))
    'orders:0,1 stock:2'
    """
    topics: dict[str, list[str]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(str(partition))
    return " ".join(f"{topic}:{','.join(each)}" for topic, each in topics.items()) or None
