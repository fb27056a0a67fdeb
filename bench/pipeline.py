"""The pipeline against Spark's own way to the same end: its Kafka connector and Iceberg's writer.

Both read topics of the same records, which one producer wrote to either, in Spark sessions that
are warm. Rounds alternate; while one side runs, the other is idle.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rich.console import Console

from bench.peer import HEADWATER, KAFKA, Peer
from bench.pipeline_figures import ROUNDS, Comparison, shown
from bench.pipeline_process import PipelineWorker, fill, spark_jars

PARTITIONS = 8
MEGABYTES = "MB/s"
CONNECTOR = "Spark's Kafka connector"


@dataclass(frozen=True, slots=True)
class RoundSize:
    """What one round moves."""

    records: int
    size: int

    @property
    def megabytes(self) -> float:
        """Of values alone, so that both sides count the same."""
        return self.records * self.size / 1e6


LARGE, SMALL = RoundSize(1_000_000, 1000), RoundSize(3_000_000, 100)
QUICK_LARGE, QUICK_SMALL = RoundSize(100_000, 1000), RoundSize(500_000, 100)


def filled(peer: Peer, amount: RoundSize) -> str:
    topic = peer.create_topic(PARTITIONS)
    fill(peer.bootstrap, topic, partitions=PARTITIONS, records=amount.records, size=amount.size)
    # What is left to the kernel to write must not slow the one down that reads it.
    os.sync()
    return topic


class PipelineServers:
    """Both servers, and workers on their data, until the block ends."""

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self.headwater = self._peer(HEADWATER)
        self.kafka = self._peer(KAFKA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ours(self, kind: str) -> PipelineWorker:
        return self._worker(kind, self.headwater.data)

    def connector(self) -> PipelineWorker:
        return self._worker(
            "connector", self.kafka.bootstrap, spark_jars(), self._folder / "warehouse"
        )

    def _peer(self, name: str) -> Peer:
        peer = Peer(name, self._folder / f"pipeline-{name}")
        self._stack.callback(peer.stop)
        return peer

    def _worker(self, kind: str, *arguments: str | Path) -> PipelineWorker:
        log = self._folder / f"{kind}.log"
        return self._stack.enter_context(PipelineWorker(kind, *arguments, log=log))


def compaction(console: Console, directory: Path, *, quick: bool) -> object:
    """WAL to Parquet to an Iceberg commit."""
    large, small = (QUICK_LARGE, QUICK_SMALL) if quick else (LARGE, SMALL)
    by_wall = Comparison(
        "WAL to Iceberg, 1 KB", MEGABYTES, f"{CONNECTOR} to Iceberg's Spark writer", 2.5
    )
    by_cpu = Comparison("WAL to Iceberg, 1 KB", "MB/CPU s", "decode and write in one process", 0.6)
    small_rates = Comparison("WAL to Iceberg, 100 bytes", "M records/s", "", 1.5)
    with PipelineServers(directory) as servers:
        ours, plain, theirs = servers.ours("compaction"), servers.ours("plain"), servers.connector()

        def land_ours() -> None:
            topic = filled(servers.headwater, large)
            done = ours.ask(topic=topic)
            check(done["records"], large)
            by_wall.ours.append(large.megabytes / done["seconds"])
            by_cpu.ours.append(large.megabytes / done["cpu_seconds"])
            servers.headwater.delete_topic(topic)

        def land_theirs() -> None:
            topic = filled(servers.kafka, large)
            done = theirs.ask(topic=topic, table=True)
            check(done["records"], large)
            by_wall.theirs.append(large.megabytes / done["seconds"])
            servers.kafka.delete_topic(topic)

        def land_plainly() -> None:
            topic = filled(servers.headwater, large)
            done = plain.ask(topic=topic)
            check(done["records"], large)
            by_cpu.theirs.append(large.megabytes / done["task_cpu_seconds"])
            servers.headwater.delete_topic(topic)

        def land_small() -> None:
            topic = filled(servers.headwater, small)
            done = ours.ask(topic=topic)
            check(done["records"], small)
            small_rates.ours.append(small.records / 1e6 / done["seconds"])
            servers.headwater.delete_topic(topic)

        ways = (land_ours, land_theirs, land_plainly, land_small)
        for way in ways:
            way()
        for figures in (by_wall, by_cpu, small_rates):
            figures.forget()
        run_rounds(ways, quick=quick)
    return shown(console, "Topics to Iceberg tables", (by_wall, by_cpu, small_rates))


def source(console: Console, directory: Path, *, quick: bool) -> object:
    """The data source to a sink that does nothing, before and after compaction."""
    amount = QUICK_LARGE if quick else LARGE
    by_state = {
        state: Comparison(f"data source, {state}", MEGABYTES, CONNECTOR, 1.5)
        for state in ("from WAL", "from Parquet")
    }
    with PipelineServers(directory) as servers:
        ours, theirs = servers.ours("source"), servers.connector()
        theirs_topic, wal = filled(servers.kafka, amount), filled(servers.headwater, amount)
        parquet = filled(servers.headwater, amount)
        check(servers.ours("plain").ask(topic=parquet)["records"], amount)
        by_topic = {wal: by_state["from WAL"], parquet: by_state["from Parquet"]}

        def read_ours() -> None:
            for topic, figures in by_topic.items():
                figures.ours.append(amount.megabytes / ours.ask(topic=topic)["seconds"])

        def read_theirs() -> None:
            rate = amount.megabytes / theirs.ask(topic=theirs_topic)["seconds"]
            for figures in by_topic.values():
                figures.theirs.append(rate)

        ways = (read_ours, read_theirs)
        for way in ways:
            way()
        for figures in by_topic.values():
            figures.forget()
        run_rounds(ways, quick=quick)
    return shown(console, "Spark reads topics to a no-op sink", list(by_state.values()))


def run_rounds(ways: Sequence[Callable[[], None]], *, quick: bool) -> None:
    """All ways in turn, and in the opposite order every second time."""
    for number in range(1 if quick else ROUNDS):
        for way in ways if number % 2 == 0 else ways[::-1]:
            way()


def check(records: int, amount: RoundSize) -> None:
    if records != amount.records:
        raise RuntimeError(f"{amount.records} records wanted, {records} there")
