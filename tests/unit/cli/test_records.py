"""``headwater produce`` and ``consume`` against a live broker."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Serving


def consumed(broker: Serving, topic: str, *arguments: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in broker.ok("consume", topic, "--json", *arguments).splitlines()
    ]


def test_lines_come_back_as_they_were_sent(broker: Serving) -> None:
    broker.ok("produce", "lines", stdin="one\n\nthree")
    assert broker.ok("consume", "lines") == "one\n\nthree\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_nulls_survive_each_codec(broker: Serving, codec: str) -> None:
    topic = f"codec-{codec}"
    arguments = ["-k", ":", "-H", "trace=é", "-z", codec, "--null", "-"]
    broker.ok("produce", topic, *arguments, stdin="k:v\nno key\ngone:-\n")
    records = consumed(broker, topic)
    assert [(each["key"], each["value"]) for each in records] == [
        ("k", "v"),
        (None, "no key"),
        ("gone", None),
    ]
    assert all(each["headers"] == [{"name": "trace", "value": "é"}] for each in records)
    assert [each["offset"] for each in records] == [0, 1, 2]
    assert all(each["timestamp_type"] == "CreateTime" for each in records)


def test_bytes_that_are_no_text_are_base64_in_json_and_raw_in_lines(broker: Serving) -> None:
    broker.ok("produce", "binary", stdin=b"\xff\xfe\n")
    assert consumed(broker, "binary")[0]["value"] == {"base64": "//4="}
    assert consumed(broker, "binary", "--encoding", "base64")[0]["value"] == "//4="
    assert base64.b64decode("//4=") + b"\n" == broker.headwater("consume", "binary").stdout_bytes


def test_json_tells_where_the_records_went(broker: Serving) -> None:
    broker.ok("topic", "create", "placed", "--partitions", "3")
    answer = json.loads(broker.ok("produce", "placed", "-p", "2", "--json", stdin="a\nbc\n"))
    assert answer == {
        "topic": "placed",
        "records": 2,
        "bytes": 3,
        "partitions": [{"partition": 2, "first_offset": 0, "last_offset": 1}],
    }
    assert [each["partition"] for each in consumed(broker, "placed")] == [2, 2]
    assert consumed(broker, "placed", "-p", "0", "-p", "1") == []


def test_records_that_no_broker_acknowledges_are_sent_without_an_offset(broker: Serving) -> None:
    sent = broker.headwater("produce", "unacked", "--acks", "0", stdin="a\nb\n")
    assert (sent.exit_code, sent.stderr) == (0, "Sent 2 records, 2 B to unacked (partition 0)\n")
    answer = json.loads(broker.ok("produce", "unacked", "--acks", "0", "--json", stdin="c\n"))
    assert answer["partitions"] == [{"partition": 0, "first_offset": None, "last_offset": None}]
    assert broker.ok("consume", "unacked", "--follow", "--count", "3") == "a\nb\nc\n"


def test_an_empty_key_separator_is_wrong_usage(broker: Serving) -> None:
    result = broker.headwater("produce", "separated", "-k", "", stdin="a\n")
    assert result.exit_code == 2
    assert "Invalid value for --key-separator: it is empty" in result.stderr


def test_a_file_is_produced_like_standard_input(broker: Serving, tmp_path: Path) -> None:
    file = tmp_path / "records.txt"
    file.write_text("a\nb\n")
    broker.ok("produce", "from-file", str(file), "--acks", "1")
    assert broker.ok("consume", "from-file") == "a\nb\n"


def test_consuming_starts_at_the_requested_offset(broker: Serving) -> None:
    broker.ok("produce", "starts", stdin="0\n1\n2\n")
    time.sleep(0.01)
    middle = int(time.time() * 1000)
    time.sleep(0.01)
    broker.ok("produce", "starts", stdin="3\n4\n")
    assert broker.ok("consume", "starts", "-o", "3") == "3\n4\n"
    assert broker.ok("consume", "starts", "-o", "-1") == "4\n"
    assert broker.ok("consume", "starts", "-o", "latest") == ""
    assert broker.ok("consume", "starts", "-o", f"@{middle}") == "3\n4\n"
    assert broker.ok("consume", "starts", "-o", "2001-02-03T04:05:06Z", "-n", "2") == "0\n1\n"
    assert broker.ok("consume", "starts", "-o", "2101-01-01") == ""
    assert broker.ok("consume", "starts", "--follow", "--count", "5").count("\n") == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "absent: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART, 3)"),
        (["bounds", "-p", "4"], "topic bounds has no partition 4; it has partitions 0 to 0"),
        (["bounds", "-o", "9"], "offset 9 is out of range; partition 0 has offsets 0 to 1"),
    ],
)
def test_what_cannot_be_consumed_is_one_line(
    broker: Serving, arguments: list[str], message: str
) -> None:
    broker.ok("topic", "create", "bounds", "--if-not-exists")
    if broker.ok("consume", "bounds") == "":
        broker.ok("produce", "bounds", stdin="x\n")
    result = broker.headwater("consume", *arguments)
    assert (result.exit_code, result.stderr) == (1, f"Error: {message}\n")


def test_a_record_that_is_too_large_is_one_line_and_exit_1(broker: Serving) -> None:
    broker.ok("topic", "create", "small", "-c", "max.message.bytes=100")
    result = broker.headwater("produce", "small", stdin="x" * 1000)
    assert result.exit_code == 1
    assert "MSG_SIZE_TOO_LARGE, 10" in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_broker_the_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("client", "consume", "produce"):
        monkeypatch.setattr(f"headwater.cli.{module}.CONNECT_TIMEOUT", 0.2)
    nobody = Serving(None, ["127.0.0.1:1"], Path(), "")  # type: ignore[arg-type]
    for arguments in (["topic", "list"], ["consume", "t"], ["produce", "t"]):
        result = nobody.headwater(*arguments, stdin="x")
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: no broker answers at 127.0.0.1:1; start one with")
        assert result.stderr.count("\n") == 1
