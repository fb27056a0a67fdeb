"""``headwater table`` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.pipeline.cluster import Cluster

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


def test_compact_list_and_describe(cluster: Cluster) -> None:
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


def test_mistakes_are_one_line(cluster: Cluster, tmp_path: Path) -> None:
    nowhere = table("compact", "--data", tmp_path / "nowhere")
    assert (nowhere.returncode, nowhere.stderr.count("\n")) == (1, 1)
    assert "there is no cluster in" in nowhere.stderr
    unknown = table("compact", "no-such-topic", "--data", cluster.data)
    assert unknown.stderr == "Error: topic 'no-such-topic' does not exist\n"
    topic = cluster.create_topic()
    cluster.produce(topic, 10)
    wrong = table("compact", topic, "--data", cluster.data, JAVA_HOME=str(tmp_path))
    assert wrong.returncode == 1
    assert f"JAVA_HOME is {tmp_path}, where there is no bin/java" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
