"""One way that data takes, in a process of its own: ``python -m bench.pipeline_worker KIND ...``.

A line of JSON on standard input is a question, a line of JSON on standard output its answer. The
process stays between questions, so that all but the first find it warm.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from headwater.pipeline.cluster_stores import StoreLocation, open_cluster_stores
from headwater.pipeline.compaction.compactor import Compactor
from headwater.pipeline.compaction.range_task import run_packed, warm_up
from headwater.pipeline.settings import PipelineSettings
from headwater.pipeline.source.data_source import HeadwaterDataSource
from headwater.pipeline.spark.runner import Done, Runner, SparkRunner
from headwater.pipeline.spark.session import spark_session
from headwater.tables.settings import TableSettings

MASTER = "local[*]"
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
"""What both sources give."""

Answer = dict[str, Any]
Way = Callable[[Answer], Answer]


class RunnerWithoutSpark:
    """Runs tasks here, one after the other: the limit that Spark is held against."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        return [run_packed(task) for task in tasks]

    def close(self) -> None: ...


class RepeatingRunner:
    """Runs the tasks of a job again and again while a file is there."""

    def __init__(self, runner: Runner, while_there: Path) -> None:
        self._runner = runner
        self._while_there = while_there

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        results = self._runner.run(tasks, done)
        while self._while_there.exists():
            results = self._runner.run(tasks, done)
        return results

    def close(self) -> None: ...


def address_of(data: Path) -> StoreLocation:
    return StoreLocation(
        data=data,
        metadata_url=f"sqlite:///{data}/metadata.db",
        objects_url=f"file://{data}/objects",
    )


async def compact(address: StoreLocation, topic: str, runner: Runner) -> Answer:
    async with open_cluster_stores(address, TableSettings()) as place:
        compactor = Compactor(
            meta=place.meta,
            objects=place.objects,
            reclaimer=place.reclaimer,
            objects_url=address.objects_url,
            clock=place.clock,
            tables=place.tables,
            runner=runner,
            settings=PipelineSettings(),
        )
        try:
            began = time.perf_counter()
            summary = await compactor.compact([topic])
            return {
                "seconds": time.perf_counter() - began,
                "records": summary.records,
                "bytes": summary.chunk_bytes,
                "task_cpu_seconds": summary.task_cpu_seconds,
                "failures": summary.failures,
            }
        finally:
            compactor.close()


@contextmanager
def compaction(data: str) -> Iterator[Way]:
    """Headwater's own, as ``headwater table compact`` runs it."""
    runner = SparkRunner(MASTER)

    def answer(question: Answer) -> Answer:
        chosen: Runner = runner
        if flag := question.get("while_there"):
            chosen = RepeatingRunner(runner, Path(flag))
        return asyncio.run(compact(address_of(Path(data)), question["topic"], chosen))

    try:
        yield answer
    finally:
        runner.close()


@contextmanager
def plain(data: str) -> Iterator[Way]:
    """The same without Spark."""
    warm_up()
    yield lambda question: asyncio.run(
        compact(address_of(Path(data)), question["topic"], RunnerWithoutSpark())
    )


@contextmanager
def source(data: str) -> Iterator[Way]:
    """Headwater's data source to nowhere."""
    address = address_of(Path(data))
    with spark_session(MASTER) as session:
        session.dataSource.register(HeadwaterDataSource)
        kinds = {field.name: field for field in HeadwaterDataSource({}).schema()}
        columns = ", ".join(f"{name} {kinds[name].dataType.simpleString()}" for name in COLUMNS)

        def answer(question: Answer) -> Answer:
            frame = (
                session.read.format("headwater")
                .options(metadata=address.metadata_url, objects=address.objects_url)
                .option("topic", question["topic"])
                .schema(columns)
                .load()
            )
            return timed(frame.write.format("noop").mode("overwrite").save)

        yield answer


@contextmanager
def connector(bootstrap: str, jars: str, warehouse: str) -> Iterator[Way]:
    """Spark's Kafka connector to nowhere, or by Iceberg's Spark writer into a table."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER)
    for name, value in {
        "spark.jars": ",".join(str(jar) for jar in Path(jars).glob("*.jar")),
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.peer.type": "hadoop",
        "spark.sql.catalog.peer.warehouse": warehouse,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()

    def answer(question: Answer) -> Answer:
        topic = question["topic"]
        frame = (
            session.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("endingOffsets", "latest")
        )
        if not question.get("table"):
            records = frame.load().select(*COLUMNS)
            return timed(records.write.format("noop").mode("overwrite").save)
        # A table of what ours has and the connector gives; zstd at our level; no shuffle.
        records = frame.option("includeHeaders", "true").load().select(*COLUMNS[1:], "headers")
        table = f"peer.db.{topic.replace('-', '_')}"
        writer = records.writeTo(table).tableProperty("write.parquet.compression-level", "1")
        done = timed(writer.create)
        return {**done, "records": session.table(table).count()}

    try:
        yield answer
    finally:
        session.stop()


def timed(action: Callable[[], object]) -> Answer:
    began = time.perf_counter()
    action()
    return {"seconds": time.perf_counter() - began}


WAYS: dict[str, Callable[..., AbstractContextManager[Way]]] = {
    "compaction": compaction,
    "plain": plain,
    "source": source,
    "connector": connector,
}


def main() -> None:
    kind, *arguments = sys.argv[1:]
    with WAYS[kind](*arguments) as answer:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
