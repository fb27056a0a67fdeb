"""A cluster on S3 (versitygw), its object store made as slow as a real one by Toxiproxy."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from bench import report
from bench.clients import perf
from bench.cluster_rig import METADATA, MeasuredCluster, running_rig
from bench.yardstick import yardstick

ALL = "acks=all"
RECORD_BYTES = 1_000
PRODUCERS, PARTITIONS = 16, 96
RATE = 20_000
"""Records a second: 20 MB/s."""
ON_TOP_MS = 250.0
"""What a producer may wait beside the object store: the least time between two flushes."""
SMALL_RATE, SMALL_BYTES, SMALL_MS = 100, 100, 25.0
ROUNDS = 3
"""Their median counts: a single p99 is what one pause of the machine makes it."""
PUT_RATE, PUTS_A_SECOND = 5_000, 5.0
PUT_ROUNDS = 4
"""So many times as long as others PUTs are counted: brokers begin to merge after some seconds."""
PARTITION_COUNTS = (1, 100, 10_000)
FLAT = 1.2
CPU_RATIO = 1.25

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class AddedLatency:
    """What is added to every answer of the object store, in milliseconds."""

    least: int
    most: int

    @property
    def name(self) -> str:
        return f"{self.least} ms" if self.least == self.most else f"{self.least}-{self.most} ms"

    @property
    def p99(self) -> float:
        return self.least + (self.most - self.least) * 0.99

    def apply(self, rig: MeasuredCluster) -> None:
        rig.slow_down((self.least + self.most) // 2, (self.most - self.least) // 2)


SLOW = (AddedLatency(0, 0), AddedLatency(40, 40), AddedLatency(200, 400))


def produce(rig: MeasuredCluster, metadata: str, seconds: float) -> list[Row]:
    """The acknowledgement at 20 MB/s from many producers, and what one of them reaches alone."""
    rows: list[Row] = []
    for slowness in SLOW:
        slowness.apply(rig)
        topic = rig.create_topic(PARTITIONS)
        answers = [
            perf(
                "steady", rig.bootstrap, topic, PARTITIONS, seconds, RECORD_BYTES, RATE, PRODUCERS,
                ALL,
            )
            for _ in range(ROUNDS)
        ]  # fmt: skip
        alone = perf(
            "produce", rig.bootstrap, topic, PARTITIONS, int(RATE * seconds), RECORD_BYTES, 0, ALL
        )
        p50 = median(answer["ack_us"]["p50"] for answer in answers) / 1e3
        low, p99, high = sorted(answer["ack_us"]["p99"] / 1e3 for answer in answers)
        bar = slowness.p99 + ON_TOP_MS
        rows.append(
            {
                "metadata": metadata,
                "added to PUT": slowness.name,
                "MB/s": round(median(answer["mb_per_second"] for answer in answers), 1),
                "p50 ms": round(p50, 1),
                "p99 ms": round(p99, 1),
                "low-high": f"{low:.0f}-{high:.0f}",
                "bar": f"≤ {bar:.0f} ms",
                "holds": p99 <= bar,
                "one producer MB/s": round(alone["mb_per_second"], 1),
            }
        )
    return rows


def inline(rig: MeasuredCluster, metadata: str, seconds: float) -> list[Row]:
    """The acknowledgement of small records that travel inside the metadata transaction."""
    rows: list[Row] = []
    for slowness in SLOW:
        slowness.apply(rig)
        topic = rig.create_topic(1, **{"headwater.latency": "low"})
        answers = [
            perf(
                "latency", rig.bootstrap, topic, 1, seconds + 1, SMALL_BYTES, SMALL_RATE, ALL,
                "linger.ms=0",
            )["ack_us"]
            for _ in range(ROUNDS)
        ]  # fmt: skip
        p50, p99 = (median(one[name] for one in answers) / 1e3 for name in ("p50", "p99"))
        beside = _small_beside_many(rig, topic, seconds)
        rows.append(
            {
                "metadata": metadata,
                "added to PUT": slowness.name,
                "p50 ms": round(p50, 1),
                "p99 ms": round(p99, 1),
                "bar": f"≤ {SMALL_MS:g} ms",
                "holds": p99 <= SMALL_MS,
                "p50, p99 beside 20 MB/s": f"{beside['p50'] / 1e3:.1f}, {beside['p99'] / 1e3:.1f}",
            }
        )
    return rows


def _small_beside_many(rig: MeasuredCluster, small: str, seconds: float) -> Any:
    """The same while other topics take 20 MB/s."""
    many = rig.create_topic(PARTITIONS)
    with ThreadPoolExecutor(1) as threads:
        load = threads.submit(
            perf, "steady", rig.bootstrap, many, PARTITIONS, seconds, RECORD_BYTES, RATE, PRODUCERS,
            ALL,
        )  # fmt: skip
        answer = perf(
            "latency", rig.bootstrap, small, 1, seconds, SMALL_BYTES, SMALL_RATE, ALL,
            "linger.ms=0",
        )  # fmt: skip
        load.result()
    return answer["ack_us"]


def puts(rig: MeasuredCluster, metadata: str, seconds: float) -> list[Row]:
    """Objects written a second by each broker, merges too, by the number of partitions."""
    rows: list[Row] = []
    seconds *= PUT_ROUNDS
    fewest: float | None = None
    for partitions in PARTITION_COUNTS:
        topic = rig.create_topic(partitions)
        before, began = rig.puts(), time.monotonic()
        perf(
            "produce", rig.bootstrap, topic, partitions, int(PUT_RATE * seconds), RECORD_BYTES,
            PUT_RATE, ALL,
        )  # fmt: skip
        # To each PUT the pause that follows it: a window between two has one more than pauses.
        time.sleep(1 / PUTS_A_SECOND)
        rate = (rig.puts() - before) / (time.monotonic() - began) / len(rig.brokers)
        fewest = fewest or rate
        rows.append(
            {
                "metadata": metadata,
                "partitions": partitions,
                "PUTs/s and broker": round(rate, 2),
                "by one partition's": round(rate / fewest, 2),
                "bar": f"≤ {PUTS_A_SECOND:g}, flat",
                "holds": rate <= PUTS_A_SECOND and rate <= fewest * FLAT,
            }
        )
    return rows


@dataclass(frozen=True, slots=True)
class ProcessorUse:
    """The brokers' processor seconds for a gigabyte (10^9) taken in, and how slow they were."""

    seconds: float
    slowness: float
    """Milliseconds that a fixed piece of work took at the same time."""


def processor(rig: MeasuredCluster, seconds: float) -> ProcessorUse:
    topic = rig.create_topic(PARTITIONS)
    before = rig.cpu_seconds()
    with yardstick() as slowness:
        answer = perf(
            "steady", rig.bootstrap, topic, PARTITIONS, seconds, RECORD_BYTES, RATE, PRODUCERS, ALL
        )
    sent = answer["mb_per_second"] * answer["seconds"] * (seconds + 3) / seconds
    return ProcessorUse((rig.cpu_seconds() - before) / (sent / 1e3), slowness())


def cluster_produce(console: Console, directory: Path, *, quick: bool) -> object:
    """Latency at 20 MB/s, by metadata store and by how slow the object store is."""
    rows = _by_metadata(directory / "produce", produce, quick=quick)
    return _shown(console, f"20 MB/s from {PRODUCERS} producers over {PARTITIONS} partitions", rows)


def cluster_inline(console: Console, directory: Path, *, quick: bool) -> object:
    """Latency of small records, by metadata store and by how slow the object store is."""
    rows = _by_metadata(directory / "inline", inline, quick=quick)
    return _shown(console, f"{SMALL_RATE} small records/s, inline", rows)


def cluster_puts(console: Console, directory: Path, *, quick: bool) -> object:
    """PUTs by metadata store and by the number of partitions."""
    return _shown(console, "PUTs", _by_metadata(directory / "puts", puts, quick=quick))


def cluster_processor(console: Console, directory: Path, *, quick: bool) -> object:
    """Processor seconds by metadata store and by the number of brokers."""
    rows: list[Row] = []
    for metadata in METADATA:
        by_brokers: dict[int, list[ProcessorUse]] = {1: [], 2: []}
        for number in range(ROUNDS):
            for brokers, took in by_brokers.items():
                place = directory / f"processor-{metadata}-{brokers}-{number}"
                with running_rig(place, metadata=metadata, brokers=brokers) as rig:
                    took.append(processor(rig, _seconds(quick)))
        rounds = list(zip(*by_brokers.values(), strict=True))
        ratios = [two.seconds / one.seconds for one, two in rounds]
        slower = [two.slowness / one.slowness for one, two in rounds]
        at_equal_speed = median(each / by for each, by in zip(ratios, slower, strict=True))
        rows.append(
            {
                "metadata": metadata,
                "one broker": round(median(one.seconds for one, _ in rounds), 2),
                "two brokers": round(median(two.seconds for _, two in rounds), 2),
                "ratio": round(median(ratios), 2),
                "low-high": f"{min(ratios):.2f}-{max(ratios):.2f}",
                "slower beside two": round(median(slower), 2),
                "at equal speed": round(at_equal_speed, 2),
                "bar": f"≤ {CPU_RATIO}",
                "holds": median(ratios) <= CPU_RATIO,
            }
        )
    return _shown(console, "Processor seconds for 1 GB", rows)


def _by_metadata(
    directory: Path, measure: Callable[[MeasuredCluster, str, float], list[Row]], *, quick: bool
) -> list[Row]:
    """One broker with each metadata store."""
    rows: list[Row] = []
    for metadata in METADATA:
        with running_rig(directory / metadata, metadata=metadata, brokers=1) as rig:
            rows += measure(rig, metadata, _seconds(quick))
    return rows


def _seconds(quick: bool) -> float:
    return 3.0 if quick else 10.0


def _shown(console: Console, title: str, rows: list[Row]) -> list[Row]:
    report.show_rows(console, title, list(rows))
    return rows


ALONE = {
    "cluster-produce": cluster_produce,
    "cluster-inline": cluster_inline,
    "cluster-puts": cluster_puts,
    "cluster-processor": cluster_processor,
}
