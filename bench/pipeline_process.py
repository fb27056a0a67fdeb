"""Workers of the pipeline's benches seen from outside: their answers, and the time they burn."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Producer

from peers.install import maven_jars

POM = Path(__file__).with_name("pipeline_pom.xml")
TEXT_BYTES = 64 * 2**20
MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "MALLOC_TOP_PAD_": str(2**26),
}
"""The allocator's settings that Spark's workers have, for the process without Spark."""


class PipelineWorker:
    """A ``bench.pipeline_worker``. It ends with the block."""

    def __init__(self, kind: str, *arguments: str | Path, log: Path) -> None:
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pipeline_worker", kind, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **MEMORY} if kind == "plain" else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def ask(self, **question: object) -> dict[str, Any]:
        """The answer, with the CPU seconds that the worker and its children took for it."""
        before = tree_cpu_seconds(self._process.pid)
        self.begin(**question)
        answer = self.answer()
        return {**answer, "cpu_seconds": tree_cpu_seconds(self._process.pid) - before}

    def begin(self, **question: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended; see {self._log.name}")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("failures"):
            raise RuntimeError(str(answer["failures"]))
        return answer


def tree_cpu_seconds(root: int) -> float:
    """What a process and all below it have used, those that have ended included."""
    used: dict[int, int] = {}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has just ended
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(int(field) for field in fields[11:15])

    def belongs(process: int) -> bool:
        while process not in (root, 0):
            process = parents.get(process, 0)
        return process == root

    ticks = sum(ticks for process, ticks in used.items() if belongs(process))
    return ticks / os.sysconf("SC_CLK_TCK")


def spark_jars() -> Path:
    """Spark's Kafka connector and Iceberg's Spark runtime."""
    return maven_jars("spark-kafka-iceberg", POM)


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started in the block runs on one core for good."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@cache
def _text() -> bytes:
    return random.Random(1).randbytes(TEXT_BYTES // 2).hex().encode()


def fill(bootstrap: str, topic: str, *, partitions: int, records: int, size: int) -> None:
    """Produce records whose text differs from one to the next and compresses to half its size."""
    text = _text()
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 512_000,
            "log_level": 0,
        }
    )
    places = (len(text) - size) // size
    for number in range(records):
        at = number % places * size
        value = text[at : at + size]
        while True:
            try:
                producer.produce(topic, value=value, partition=number % partitions)
            except BufferError:
                producer.poll(0.1)
            else:
                break
    if producer.flush(300):
        raise RuntimeError(f"{topic} could not be filled")
