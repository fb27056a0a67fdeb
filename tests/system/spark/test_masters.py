"""Where jobs run: beside the threads of this process, on all that Spark offers."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater.cli
from headwater.errors import ConfigurationError
from headwater.pipeline.spark.preflight import check_server, differences, versions
from peers.process import Server, free_port
from peers.spark import program, start_connect
from tests.support.pipeline.cluster import PipelineCluster
from tests.support.pipeline.commands import run_command

pytestmark = pytest.mark.timeout(420)

LOCAL_CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = start_connect(tmp_path_factory.mktemp("connect"))
    yield server
    server.stop()


def filled(cluster: PipelineCluster) -> str:
    topic = cluster.create_topic(partitions=2)
    cluster.produce(topic, 500, partitions=2)
    return topic


def counting(topic: str) -> tuple[str, ...]:
    query = (
        f"SELECT partition, count(*) AS n FROM `{topic}` WHERE offset < 50 GROUP BY 1 ORDER BY 1"
    )
    return ("sql", query, "--format", "json")


COUNTED = [{"partition": 0, "n": 50}, {"partition": 1, "n": 50}]


def lines(text: str) -> list[object]:
    return [json.loads(line) for line in text.splitlines()]


async def test_compaction_and_sql_run_by_spark_connect(
    cluster: PipelineCluster, connect: Server
) -> None:
    topic = filled(cluster)
    expected = cluster.consume(topic)
    address = ("--master", f"sc://{connect.bootstrap}")
    compacted = run_command(cluster, "table", "compact", topic, *address, "--json")
    assert compacted.returncode == 0, compacted.stderr
    assert json.loads(compacted.stdout)["records"] == 500
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected
    asked = run_command(cluster, *counting(topic), *address)
    assert asked.returncode == 0, asked.stderr
    assert lines(asked.stdout) == COUNTED


PYTHON = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
SCRIPT = Path(headwater.cli.__file__).with_name("__main__.py")


async def test_compaction_runs_under_spark_submit(cluster: PipelineCluster) -> None:
    topic = filled(cluster)
    expected = cluster.consume(topic)
    submit = (program("spark-submit"), "--master", "local[2]", SCRIPT)
    words = ("table", "compact", topic, "--json")
    done = run_command(cluster, *words, command=submit, environment=PYTHON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["records"] == 500
    assert cluster.consume(topic) == expected
    assert await cluster.table(topic) == expected


def test_the_master_of_spark_submit_counts(cluster: PipelineCluster) -> None:
    address = f"spark://127.0.0.1:{free_port()}"
    submit = (program("spark-submit"), "--master", address, SCRIPT)
    words = ("table", "compact", filled(cluster))
    done = run_command(cluster, *words, command=submit, environment=PYTHON)
    assert done.returncode == 1
    # It prints what a script says of errors with all else.
    assert f"Error: Spark does not answer at {address}" in done.stdout


def test_sql_runs_on_a_local_cluster(cluster: PipelineCluster) -> None:
    done = run_command(cluster, *counting(filled(cluster)), "--master", LOCAL_CLUSTER)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == COUNTED


def test_a_python_of_executors_that_lacks_headwater_is_one_line(
    cluster: PipelineCluster, tmp_path: Path
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    topic = filled(cluster)
    done = run_command(
        cluster,
        *("table", "compact", topic, "--master", "local-cluster[1,1,1024]"),
        environment={"PYSPARK_PYTHON": str(bare)},
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the Python of Spark's executors has no headwater: install the")
    assert "PYSPARK_PYTHON" in line


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_does_not_answer_is_one_line(cluster: PipelineCluster, scheme: str) -> None:
    address = f"{scheme}://127.0.0.1:{free_port()}"
    done = run_command(cluster, "table", "compact", filled(cluster), "--master", address)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: Spark does not answer at {address}: ")


def test_versions_that_do_not_go_together_are_named() -> None:
    here = {"Python": "3.11.7", "headwater": "0.1.0", "pyspark": "4.1.4", "pyarrow": "26.0.1"}
    there = {name: {found} for name, found in here.items()} | {"Java": {"17.0.1", "21"}}
    assert differences(here, there) == []
    patched = there | {"Python": {"3.11.2"}, "pyspark": {"4.1.5"}, "pyarrow": {"20.0.0"}}
    assert differences(here, patched) == []
    for name, found, text in (
        ("Python", "3.12.1", "Python 3.12.1 there and 3.11.7 here"),
        ("headwater", "0.1.1", "headwater 0.1.1 there and 0.1.0 here"),
        ("pyspark", "4.2.0", "pyspark 4.2.0 there and 4.1.4 here"),
        ("pyarrow", "17.0.0", "pyarrow 17.0.0 there and 26.0.1 here"),
        ("pyarrow", "none", "pyarrow none there and 26.0.1 here"),
        ("Java", "11.0.2", "Java 11.0.2 there, and Spark needs 17 or 21"),
    ):
        assert differences(here, there | {name: {found}}) == [text]


def test_a_connect_server_of_another_release_is_named() -> None:
    own = versions()["pyspark"]
    check_server(own)
    with pytest.raises(ConfigurationError, match=r"the server runs Spark 4\.0\.1 and pyspark here"):
        check_server("4.0.1")
