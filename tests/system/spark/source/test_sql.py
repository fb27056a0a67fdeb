"""``headwater sql``: queries over topics, and how results are written."""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headwater.errors import ConfigurationError, UnknownTopicOrPartition
from headwater.pipeline.sql import SqlStores, run_query, topic_names
from tests.support.pipeline.cluster import PipelineCluster
from tests.system.spark.conftest import SharedSpark


def ask(spark: SharedSpark, cluster: PipelineCluster, query: str) -> list[dict[str, Any]]:
    place = SqlStores(cluster.address.metadata_url, cluster.address.objects_url)
    found: list[dict[str, Any]] = run_query(
        spark.session, query, place, topic_names(place)
    ).to_pylist()
    return found


async def test_a_query_sees_what_was_compacted_and_the_live_tail(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    cluster.create_topic("sales", partitions=2)
    cluster.produce("sales", 200, partitions=2, seed=1)
    await cluster.compact("sales")
    cluster.produce("sales", 50, partitions=2, seed=2)
    produced = cluster.consume("sales")
    assert ask(spark, cluster, "SELECT count(*) AS n FROM sales") == [{"n": 250}]
    few = "SELECT offset, value FROM sales WHERE partition = 1 AND offset < 9 ORDER BY offset"
    assert ask(spark, cluster, few) == [
        {"offset": row.offset, "value": row.value}
        for row in produced
        if row.partition == 1 and row.offset < 9
    ]
    twice = "SELECT (SELECT count(*) FROM sales) AS a, count(*) AS b FROM sales WHERE offset < 3"
    assert ask(spark, cluster, twice) == [{"a": 250, "b": 6}]
    (star,) = ask(spark, cluster, "SELECT * EXCEPT (headers) FROM sales LIMIT 1")
    assert "value" in star
    assert "headers" not in star


def test_wrong_queries_are_answered_in_one_line(
    cluster: PipelineCluster, spark: SharedSpark, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("payments")
    cluster.create_topic("page-views")
    with pytest.raises(UnknownTopicOrPartition, match="did you mean payments"):
        ask(spark, cluster, "SELECT * FROM payment")
    with pytest.raises(ConfigurationError, match="write `page-views`"):
        ask(spark, cluster, "SELECT * FROM page-views")
    with pytest.raises(ConfigurationError, match="Syntax error at or near 'SELEC'"):
        ask(spark, cluster, "SELEC 1")
    assert capfd.readouterr().err == ""
    assert ask(spark, cluster, "SELECT count(*) AS n FROM `page-views`") == [{"n": 0}]


def test_a_statement_that_changes_something_is_refused(
    cluster: PipelineCluster, spark: SharedSpark
) -> None:
    cluster.create_topic("target")
    for statement in (
        "INSERT INTO target SELECT * FROM target",
        " create table copy AS SELECT * FROM target",
        "DELETE FROM target",
    ):
        with pytest.raises(ConfigurationError, match="headwater sql only reads topics"):
            ask(spark, cluster, statement)
    with pytest.raises(ConfigurationError, match=r"^format headwater only reads topics"):
        ask(spark, cluster, "WITH a AS (SELECT * FROM target) INSERT INTO target SELECT * FROM a")


def test_all_topics_are_listed_as_tables(cluster: PipelineCluster, spark: SharedSpark) -> None:
    for topic in ("invoices", "page-clicks"):
        cluster.create_topic(topic)
    shown = {row["tableName"] for row in ask(spark, cluster, "show tables")}
    assert {"invoices", "page-clicks"} <= shown
    (only,) = ask(spark, cluster, "SHOW TABLES LIKE 'invo*'")
    assert only["tableName"] == "invoices"


def headwater_sql(cluster: PipelineCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headwater.cli", "sql", "--data", str(cluster.data), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_the_command_prints_what_it_found(cluster: PipelineCluster) -> None:
    cluster.create_topic("greetings")
    cluster.produce("greetings", 10, seed=3)
    done = headwater_sql(
        cluster, "SELECT partition, count(*) AS n FROM greetings GROUP BY 1", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"partition": 0, "n": 10}
    assert done.stderr == ""


@pytest.mark.parametrize("form", ["csv", "json", "parquet", "table"])
def test_results_are_written_in_every_format(tmp_path: Path, form: str) -> None:
    import pyarrow as pa

    from headwater.cli.sql import _write

    table = pa.table({"n": [1, None], "b": pa.array([b"ok", b"\xff"], pa.binary())})
    file = tmp_path / "out"
    _write(table, form, file)
    read: Sequence[object]
    match form:
        case "csv":
            with file.open(newline="") as lines:
                read = list(csv.reader(lines))
            assert read == [["n", "b"], ["1", "ok"], ["", "0xff"]]
        case "json":
            read = [json.loads(line) for line in file.read_text().splitlines()]
            assert read == [{"n": 1, "b": "ok"}, {"n": None, "b": "0xff"}]
        case "parquet":
            assert pq.read_table(file).equals(table)
        case _:
            assert file.read_text() == "1\tok\n-\t0xff\n"
