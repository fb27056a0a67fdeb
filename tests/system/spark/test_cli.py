"""``headwater table`` as a user runs it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.pipeline.cluster import PipelineCluster

COMMAND = Path(sys.executable).with_name("headwater")


def table(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "table", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env=os.environ | environment,
    )


def test_compact_list_and_describe(cluster: PipelineCluster) -> None:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 500, partitions=2)
    where = ("--data", cluster.data, "--json")
    (before,) = json.loads(table("describe", topic, *where).stdout)
    assert (before["records"], before["waiting"], before["location"]) == (0, 500, None)
    done = table("compact", topic, "--master", "local[1]", *where)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["records"], summary["streams"], summary["failures"]) == (500, 2, [])
    (after,) = json.loads(table("describe", topic, *where).stdout)
    assert (after["records"], after["waiting"], after["snapshots"]) == (500, 0, 1)
    listed = {each["topic"]: each for each in json.loads(table("list", *where).stdout)}
    assert listed[topic]["files"] == summary["files"]
    again = table("compact", topic, "--data", cluster.data)
    assert again.stdout == "Nothing to compact.\n"


def test_mistakes_are_one_line(cluster: PipelineCluster, tmp_path: Path) -> None:
    nowhere = table("compact", "--data", tmp_path / "nowhere")
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (1, 1)
    assert "there is no cluster in" in nowhere.stderr
    unknown = table("compact", "no-such-topic", "--data", cluster.data)
    assert unknown.stderr == "Error: topic 'no-such-topic' does not exist\n"
    topic = cluster.create_topic()
    cluster.produce(topic, 10)
    wrong = table("compact", topic, "--data", cluster.data, JAVA_HOME=str(tmp_path))
    assert wrong.returncode == 1
    assert f"JAVA_HOME is {tmp_path}, which has no bin/java" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


@pytest.mark.timeout(180)
def test_a_broker_compacts_beside_itself_when_asked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    broker = subprocess.Popen(
        [COMMAND, "serve", "--compact", "--data", data, "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ
        | {"HEADWATER_PIPELINE_MAX_AGE_MS": "1", "HEADWATER_PIPELINE_INTERVAL_MS": "200"},
    )
    with broker:
        try:
            assert broker.stdout is not None
            address = re.findall(r"127\.0\.0\.1:\d+", broker.stdout.readline())[0]
            produce = [COMMAND, "produce", "t", "-b", address]
            subprocess.run(produce, input="a\nb\n", text=True, check=True, timeout=30)
            deadline = time.monotonic() + 120
            while json.loads(table("list", "--data", data, "--json").stdout)[0]["records"] != 2:
                assert time.monotonic() < deadline, "nothing was compacted"
            children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
            assert children
        finally:
            broker.terminate()
    assert broker.returncode == 0
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    refused = subprocess.run(
        [COMMAND, "serve", "--compact", "--metadata", "memory://", "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path,
    )  # fmt: skip
    assert "--compact needs stores that other processes can open" in refused.stderr
