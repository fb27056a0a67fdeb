"""``headwater group`` against a live broker, with groups of real members."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from headwater.cli.root import headwater
from tests.unit.cli.conftest import Serving, serve

PROTOCOLS = ("classic", "consumer")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One that lets a first member begin at once."""
    folder: Path = tmp_path_factory.mktemp("groups")
    config = folder / "headwater.yaml"
    config.write_text("groups: {initial_rebalance_delay_ms: 0}")
    serving = serve(folder / "data", "--config", config)
    yield serving
    serving.stop()


@contextmanager
def member(broker: Serving, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
    """A member of ``group`` that owns all of ``topic`` and has committed its first two records."""
    consumer = Consumer(
        {
            "bootstrap.servers": ",".join(broker.addresses),
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"{group}-client",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        for _ in range(2):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            consumer.commit(message=message, asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def topic(broker: Serving, name: str, partitions: int = 1) -> None:
    """A topic with five records in its first partition."""
    broker.ok("topic", "create", name, "-p", str(partitions))
    broker.ok("produce", name, "-p", "0", stdin="a\nb\nc\nd\ne\n")


def left_group(broker: Serving, name: str, partitions: int = 1) -> None:
    """A group that has committed offset 2 of a topic of the same name, and no members."""
    topic(broker, name, partitions)
    with member(broker, name, name, "classic"):
        pass


def described(broker: Serving, group: str) -> Any:
    (facts,) = json.loads(broker.ok("group", "describe", group, "--json"))
    return facts


def committed(broker: Serving, group: str) -> dict[int, int]:
    return {each["partition"]: each["committed"] for each in described(broker, group)["partitions"]}


def failure(broker: Serving, *arguments: str) -> str:
    """What a command that must fail says, in one line."""
    result = broker.headwater("group", *arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_is_shown_with_its_lag_and_its_members(broker: Serving, protocol: str) -> None:
    name = f"shown-{protocol}"
    topic(broker, name, partitions=2)
    with member(broker, name, name, protocol) as consumer:
        facts = described(broker, name)
        assert (facts["type"], facts["state"], facts["lag"]) == (protocol, "Stable", 3)
        first, second = facts["partitions"]
        assert (first["committed"], first["end"], first["lag"]) == (2, 5, 3)
        assert (second["committed"], second["end"], second["lag"]) == (None, 0, None)
        for each in facts["partitions"]:
            assert each["member"] == consumer.memberid()
            assert each["client"] == f"{name}-client"
            assert each["host"] == "127.0.0.1"
        (line,) = broker.ok("group", "describe", name, "--members").splitlines()[1:]
        assert line.split("\t")[0] == consumer.memberid()
        assert line.split("\t")[2:] == [f"{name}-client", "127.0.0.1", "2", f"{name}:0,1"]
        listed = json.loads(broker.ok("group", "list", "--json"))
        assert {"group": name, "state": "Stable", "type": protocol, "members": 1} in listed
    assert described(broker, name)["members"] == []
    assert f"{name}\tEmpty\t{protocol}\t0" in broker.ok("group", "list").splitlines()


def test_several_groups_are_described_in_order_and_with_a_total(broker: Serving) -> None:
    left_group(broker, "several-b")
    left_group(broker, "several-a")
    lines = broker.ok("group", "describe", "several-b", "several-a").splitlines()
    assert lines[0].startswith("several-b  Empty, classic, 0 members, total lag 3, coordinator ")
    assert lines[1] == "several-b\t0\t2\t5\t3\t-\t-\t-"
    assert lines[2].startswith("several-a  ")
    everything = json.loads(broker.ok("group", "describe", "--all", "--json"))
    assert {"several-a", "several-b"} <= {each["group"] for each in everything}


def test_groups_are_listed_by_state_and_type(broker: Serving) -> None:
    left_group(broker, "filtered")
    line = "filtered\tEmpty\tclassic\t0"
    assert line in broker.ok("group", "list", "--state", "empty", "--type", "classic").splitlines()
    assert line not in broker.ok("group", "list", "--state", "Stable").splitlines()
    assert line not in broker.ok("group", "list", "--type", "consumer").splitlines()


@pytest.mark.parametrize(
    ("option", "new"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-offset", "4"], 4),
        (["--shift-by", "-1"], 1),
        (["--by-duration", "1h"], 0),
        (["--to-datetime", "2000-01-01T00:00:00Z"], 0),
        (["--to-datetime", "2100-01-01T00:00:00Z"], 5),
    ],
)
def test_a_reset_without_execute_only_shows_its_plan(
    broker: Serving, option: list[str], new: int
) -> None:
    name = f"reset{'-'.join(option)}".replace(":", ".")
    left_group(broker, name)
    plan = broker.headwater("group", "reset", name, *option)
    assert plan.stdout == f"{name}\t0\t2\t{new}\t{5 - new}\n"
    assert "Nothing was changed" in plan.stderr
    assert committed(broker, name) == {0: 2}
    done = json.loads(broker.ok("group", "reset", name, *option, "--execute", "--json"))
    step = {"topic": name, "partition": 0, "current": 2, "asked": new, "new": new, "lag": 5 - new}
    assert done == {"group": name, "executed": True, "partitions": [step]}
    assert committed(broker, name) == {0: new}


def test_a_reset_says_where_an_offset_does_not_exist(broker: Serving) -> None:
    left_group(broker, "beyond")
    plan = broker.headwater("group", "reset", "beyond", "--to-offset", "99")
    assert plan.stdout == "beyond\t0\t2\t5\t0\n"
    assert "Out of range, so the nearest offset is used: beyond:0 (5 for 99)" in plan.stderr


def test_a_reset_takes_the_partitions_that_are_named(broker: Serving) -> None:
    left_group(broker, "partly", partitions=3)
    broker.ok("group", "reset", "partly", "-t", "partly:0,2", "--to-earliest", "--execute")
    assert committed(broker, "partly") == {0: 0, 2: 0}


def test_a_reset_makes_a_group_where_topics_are_named(broker: Serving) -> None:
    topic(broker, "seeded")
    assert "group seeded-new does not exist" in failure(
        broker, "reset", "seeded-new", "--to-latest"
    )
    broker.ok("group", "reset", "seeded-new", "-t", "seeded", "--to-latest", "--execute")
    assert committed(broker, "seeded-new") == {0: 5}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_neither_reset_nor_deleted(broker: Serving, protocol: str) -> None:
    name = f"busy-{protocol}"
    topic(broker, name)
    with member(broker, name, name, protocol):
        said = failure(broker, "reset", name, "--to-earliest", "--execute")
        assert said == f"group {name} has 1 member (Stable); stop them before a reset"
        said = failure(broker, "delete", name, "--yes")
        assert said == f"group {name} has members; stop them first"
    assert committed(broker, name) == {0: 2}


def test_deleted_groups_are_gone_with_their_offsets(broker: Serving) -> None:
    left_group(broker, "doomed")
    assert broker.ok("group", "delete", "doomed", "--yes") == "Deleted group doomed.\n"
    assert "doomed" not in broker.ok("group", "list")
    result = broker.headwater("group", "delete", "doomed", "doomed", "--yes", "--json")
    gone = "group doomed does not exist"
    assert json.loads(result.stdout) == [{"group": "doomed", "deleted": False, "error": gone}]
    assert result.stderr == f"Error: {gone}\n"


def test_a_deleted_topic_s_offsets_have_no_end_or_are_gone(broker: Serving) -> None:
    left_group(broker, "orphaned")
    broker.ok("topic", "delete", "orphaned", "--yes")
    facts = described(broker, "orphaned")
    assert [each["end"] for each in facts["partitions"]] in ([None], [])
    assert facts["lag"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "absent"], "group absent does not exist"),
        (["reset", "absent", "--to-latest"], "group absent does not exist"),
        (["reset", "absent", "-t", "no-such", "--to-latest"], "topic no-such does not exist"),
        (["delete", "absent", "--yes"], "group absent does not exist"),
    ],
)
def test_what_does_not_exist_is_named_in_one_line(
    broker: Serving, arguments: list[str], message: str
) -> None:
    assert message in failure(broker, *arguments)


def test_a_partition_that_does_not_exist_is_named(broker: Serving) -> None:
    topic(broker, "short")
    said = failure(broker, "reset", "short-group", "-t", "short:7", "--to-latest")
    assert said == "topic short has no partition 7; it has partitions 0 to 0"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe"], "give the names of groups, or --all"),
        (["describe", "g", "--all"], "give the names of groups, or --all"),
        (["reset", "g"], "give exactly one of --to-offset"),
        (["reset", "g", "--to-latest", "--to-earliest"], "give exactly one of --to-offset"),
        (["reset", "g", "--to-datetime", "soon"], "'soon' is not an ISO 8601 time"),
        (["reset", "g", "--by-duration", "long"], "'long' is not a duration"),
        (["reset", "g", "--to-latest", "-t", "t:x"], "'t:x' is not TOPIC"),
        (["delete", "g"], "with --yes"),
    ],
)
def test_wrong_usage_of_groups_says_why(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(headwater, ["group", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
