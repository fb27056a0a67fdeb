"""``headwater topic`` against a live broker."""

import json

import pytest

from tests.unit.cli.conftest import Serving


def test_a_topic_is_created_described_altered_and_deleted(broker: Serving) -> None:
    created = broker.ok("topic", "create", "life", "-p", "2", "-c", "retention.ms=1000")
    assert created == "Created topic life.\n"
    broker.ok("produce", "life", "-p", "1", stdin="a\nb\n")
    broker.ok("topic", "alter", "life", "-p", "3", "-c", "retention.bytes=9", "-d", "retention.ms")
    (life,) = json.loads(broker.ok("topic", "describe", "life", "--json"))
    assert life["configs"] == {"retention.bytes": "9"}
    assert [(each["earliest"], each["latest"]) for each in life["partitions"]] == [
        (0, 0),
        (0, 2),
        (0, 0),
    ]
    assert "retention.ms=604800000" in broker.ok("topic", "describe", "life", "--all-configs")
    assert broker.ok("topic", "delete", "life", "--yes") == "Deleted topic life.\n"
    assert "life\t3" not in broker.ok("topic", "list").splitlines()


def test_topics_are_listed_with_their_partitions(broker: Serving) -> None:
    broker.ok("topic", "create", "listed", "-p", "4")
    assert "listed\t4" in broker.ok("topic", "list").splitlines()
    assert {"topic": "listed", "partitions": 4} in json.loads(broker.ok("topic", "list", "--json"))


def test_creating_an_existing_topic_fails_by_default(broker: Serving) -> None:
    broker.ok("topic", "create", "twice", "--if-not-exists")
    result = broker.headwater("topic", "create", "twice")
    assert result.exit_code == 1
    assert "TOPIC_ALREADY_EXISTS, 36" in result.stderr
    answer = broker.ok("topic", "create", "twice", "--if-not-exists", "--json")
    assert json.loads(answer) == {"topic": "twice", "created": False}


def test_an_alteration_is_made_as_a_whole_or_not_at_all(broker: Serving) -> None:
    broker.ok("topic", "create", "whole", "-p", "3")
    for wrong in (["-p", "2", "-c", "retention.ms=5"], ["-p", "4", "-c", "retention.ms=soon"]):
        assert broker.headwater("topic", "alter", "whole", *wrong).exit_code == 1
        (whole,) = json.loads(broker.ok("topic", "describe", "whole", "--json"))
        assert (whole["configs"], len(whole["partitions"])) == ({}, 3)


def test_a_configuration_that_no_topic_has_is_not_deleted(broker: Serving) -> None:
    broker.ok("topic", "create", "named")
    result = broker.headwater("topic", "alter", "named", "-d", "nosuch", "-c", "retention.ms=5")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: named has no configuration nosuch\n"
    (named,) = json.loads(broker.ok("topic", "describe", "named", "--json"))
    assert named["configs"] == {}
    broker.ok("topic", "alter", "named", "-d", "retention.ms")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "wrong", "-c", "no.such=1"], "INVALID_CONFIG, 40"),
        (["create", "wrong!"], "TOPIC_EXCEPTION, 17"),
        (["describe", "absent"], "Error: absent: Unknown topic or partition"),
        (["delete", "absent", "--yes"], "UNKNOWN_TOPIC_OR_PART, 3"),
        (["alter", "absent", "-p", "4"], "UNKNOWN_TOPIC_OR_PART, 3"),
    ],
)
def test_a_refusal_is_one_line_with_kafka_s_name_for_it(
    broker: Serving, arguments: list[str], message: str
) -> None:
    result = broker.headwater("topic", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
