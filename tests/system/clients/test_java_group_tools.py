"""Kafka's own tools for groups: what they show, and what they change."""

import json
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.members import GROUP_CLIENTS
from tests.support.interop.members.group import (
    EACH,
    PARTITIONS,
    GroupOfOneClient,
    all_places,
    ends,
    fill,
    share_evenly,
    values,
)
from tests.support.interop.members.offsets import committed_offsets
from tests.support.interop.members.state import AssignmentKind, place
from tests.support.interop.records import numbered
from tests.support.interop.tools import tool
from tests.system.clients.conftest import TOOLS, create_topic, fresh_name

COMMAND = "consumer.group.ConsumerGroupCommand"
JAVA_GROUPS = GROUP_CLIENTS[0]


def rows(said: str, group: str) -> list[list[str]]:
    """The lines of a table that begin with the group's name, as words."""
    return [line.split() for line in said.splitlines() if line.split()[:1] == [group]]


@pytest.fixture
def group(bootstrap: str, leaving: ExitStack) -> GroupOfOneClient:
    group = GroupOfOneClient(bootstrap, JAVA_GROUPS, leaving)
    fill(bootstrap, group.topic, 0)
    fill(bootstrap, group.topic, 1)
    return group


def read_first_round(group: GroupOfOneClient) -> None:
    """Leaves the group empty, with one round read and one to come."""
    member = group.join()
    group.wait_for(lambda: len(member.state().values) == 2 * EACH * PARTITIONS)
    member.commit(ends(group.topic, 1))
    member.leave()


def offsets(group: GroupOfOneClient) -> set[int]:
    found = committed_offsets(group.bootstrap, group.name)
    assert set(found) == all_places(group.topic)
    return {each.offset for each in found.values()}


@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --list")
@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --describe")
@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --describe --members")
@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --describe --state")
@pytest.mark.cell(TOOLS, "GroupsCommand --list")
@pytest.mark.parametrize(
    ("kind", "protocol", "assignor"),
    [(AssignmentKind.RANGE, "Classic", "range"), (AssignmentKind.CONSUMER, "Consumer", "uniform")],
)
def test_a_running_group_is_shown(
    group: GroupOfOneClient, kind: AssignmentKind, protocol: str, assignor: str
) -> None:
    members = [group.join(kind) for _ in range(2)]
    group.wait_for(lambda: share_evenly(members, group.topic))
    for member in members:
        owned = member.state().assigned
        member.commit(
            {where: each for where, each in ends(group.topic, 1).items() if where in owned}
        )

    listed = tool(COMMAND, group.bootstrap, "--list", "--state")
    assert rows(listed, group.name) == [[group.name, "Stable"]]
    (shown,) = rows(tool("GroupsCommand", group.bootstrap, "--list"), group.name)
    assert shown == [group.name, protocol, "consumer"]

    lags = tool(COMMAND, group.bootstrap, "--describe", "--group", group.name)
    table = {(row[1], row[2]): row for row in rows(lags, group.name)}
    assert set(table) == {(group.topic, str(each)) for each in range(PARTITIONS)}
    assert {tuple(row[3:6]) for row in table.values()} == {("5", "10", "5")}
    assert len({row[6] for row in table.values()}) == len(members)

    described = ("--describe", "--group", group.name)
    shown_members = rows(tool(COMMAND, group.bootstrap, *described, "--members"), group.name)
    assert sorted(row[4] for row in shown_members) == ["3", "3"]
    (state,) = rows(tool(COMMAND, group.bootstrap, *described, "--state"), group.name)
    assert group.bootstrap in state[1]
    assert assignor in state
    assert state[-2:] == ["Stable", "2"]


@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --reset-offsets")
def test_the_offsets_of_an_empty_group_are_reset(group: GroupOfOneClient, tmp_path: Path) -> None:
    read_first_round(group)

    def reset(*how: str | Path) -> str:
        chosen = ("--reset-offsets", "--group", group.name)
        return tool(COMMAND, group.bootstrap, *chosen, *how)

    every = ("--topic", group.topic)
    planned = reset(*every, "--to-latest", "--dry-run")
    assert {row[3] for row in rows(planned, group.name)} == {"10"}
    assert offsets(group) == {5}
    for how, expected in (
        (("--to-latest",), 10),
        (("--to-earliest",), 0),
        (("--shift-by", "3"), 3),
        (("--to-offset", "7"), 7),
        (("--to-current",), 7),
        (("--to-datetime", "2000-01-01T00:00:00.000"), 0),
        (("--by-duration", "PT0S"), 10),
    ):
        reset(*every, *how, "--execute")
        assert offsets(group) == {expected}, how
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f'"{group.topic}",{part},4\n' for part in range(PARTITIONS)))
    reset("--from-file", plan, "--execute")
    assert offsets(group) == {4}


@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --reset-offsets")
def test_the_offsets_of_a_running_group_are_not_reset(group: GroupOfOneClient) -> None:
    member = group.join()
    group.wait_for(lambda: member.state().assigned == all_places(group.topic))
    said = tool(
        COMMAND, group.bootstrap, "--reset-offsets", "--group", group.name, "--topic", group.topic,
        "--to-latest", "--execute", check=False,
    )  # fmt: skip
    assert "current state is Stable" in said, said


@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --delete-offsets")
@pytest.mark.cell(TOOLS, "ConsumerGroupCommand --delete")
def test_offsets_and_then_the_group_are_deleted(group: GroupOfOneClient) -> None:
    read_first_round(group)
    chosen = ("--group", group.name)
    one = f"{group.topic}:2"
    tool(COMMAND, group.bootstrap, "--delete-offsets", *chosen, "--topic", one)
    left = set(committed_offsets(group.bootstrap, group.name))
    assert left == all_places(group.topic) - {place(group.topic, 2)}
    said = tool(COMMAND, group.bootstrap, "--delete", *chosen)
    assert "successful" in said
    assert rows(tool(COMMAND, group.bootstrap, "--list", "--state"), group.name) == []


@pytest.mark.cell(TOOLS, "VerifiableConsumer")
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
        ("--group-protocol", "consumer"),
        ("--group-protocol", "consumer", "--group-remote-assignor", "range"),
        ("--group-instance-id", "one"),
    ],
    ids=lambda options: " ".join(options) or "defaults",
)
def test_the_verifiable_consumer_reads_and_commits(
    group: GroupOfOneClient, options: tuple[str, ...]
) -> None:
    expected = 2 * EACH * PARTITIONS
    said = tool(
        "VerifiableConsumer", group.bootstrap, "--topic", group.topic, "--group-id", group.name,
        "--max-messages", str(expected), "--reset-policy", "earliest", *options,
    )  # fmt: skip
    events = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assigned = [each for each in events if each["name"] == "partitions_assigned"]
    assert {each["partition"] for one in assigned for each in one["partitions"]} == set(
        range(PARTITIONS)
    )
    consumed = [each["count"] for each in events if each["name"] == "records_consumed"]
    assert sum(consumed) == expected
    committed = [each for each in events if each["name"] == "offsets_committed"]
    assert committed
    assert all(each["success"] for each in committed), committed
    assert offsets(group) == {2 * EACH}


@pytest.mark.cell(TOOLS, "ConsoleConsumer --group")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_console_consumer_reads_in_a_group(group: GroupOfOneClient, protocol: str) -> None:
    said = tool(
        "consumer.ConsoleConsumer", group.bootstrap, "--topic", group.topic, "--group", group.name,
        "--from-beginning", "--max-messages", str(2 * EACH * PARTITIONS), "--timeout-ms", "20000",
        "--command-property", f"group.protocol={protocol}",
    )  # fmt: skip
    assert set(values(group.topic, 0) + values(group.topic, 1)) <= set(said.splitlines())
    assert offsets(group) == {2 * EACH}


@pytest.mark.cell(TOOLS, "ConsumerPerformance")
def test_consumer_performance_reads_every_record(bootstrap: str) -> None:
    topic = create_topic(bootstrap, partitions=3)
    for partition in range(3):
        LIBRDKAFKA.produce(bootstrap, topic, numbered(500), partition=partition)
    said = tool(
        "ConsumerPerformance", bootstrap, "--topic", topic, "--num-records", "1500",
        "--group", fresh_name("group"), "--timeout", "20000",
    )  # fmt: skip
    last = said.strip().splitlines()[-1].split(", ")
    assert last[4] == "1500", said


@pytest.mark.cell(TOOLS, "ConfigCommand --entity-type groups")
def test_a_groups_own_configurations_are_set_and_described(bootstrap: str) -> None:
    name = fresh_name("group")

    def command(*arguments: str) -> str:
        entity = ("--entity-type", "groups", "--entity-name", name)
        return tool("kafka.admin.ConfigCommand", bootstrap, *entity, *arguments)

    command("--alter", "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in command("--describe")
    command("--alter", "--delete-config", "consumer.session.timeout.ms")
    assert not re.search(r"consumer.session.timeout.ms=50000 ", command("--describe"))


@pytest.mark.cell(TOOLS, "FeatureCommand describe")
def test_the_level_of_groups_is_shown(bootstrap: str) -> None:
    said = tool("FeatureCommand", bootstrap, "describe")
    (line,) = [line for line in said.splitlines() if "group.version" in line and "share" not in line
               and "streams" not in line]  # fmt: skip
    assert re.search(r"SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s", line)
    assert re.search(r"FinalizedVersionLevel: 1\s", line)


@pytest.mark.cell(TOOLS, "FeatureCommand upgrade")
def test_the_clusters_own_level_is_shown_and_goes_no_further_than_brokers_speak(
    bootstrap: str,
) -> None:
    said = tool("FeatureCommand", bootstrap, "describe")
    (line,) = [line for line in said.splitlines() if "headwater.version" in line]
    assert re.search(r"SupportedMinVersion: 1\s+SupportedMaxVersion: 2\s", line)
    assert re.search(r"FinalizedVersionLevel: 2\s", line)
    upgrade = ("FeatureCommand", bootstrap, "upgrade", "--feature")
    assert "headwater.version was upgraded to 2" in tool(*upgrade, "headwater.version=2")
    said = tool(*upgrade, "headwater.version=3", check=False)
    assert "this release supports the feature levels 1 to 2, not 3" in said
