"""The metadata store is lost and restored; after it log and table are one set of records."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.clock import SystemClock
from headwater.log.read.parquet.source import in_thread
from headwater.log.restore.snapshots import Snapshotter
from headwater.pipeline.compaction.summary import RunSummary
from peers.headwater import start_headwater
from tests.support.pipeline.cluster import ENVIRONMENT, PipelineCluster, Row

COMMAND = Path(sys.executable).with_name("headwater")
TOPIC = "orders"
KINDS = {
    "objects": {"HEADWATER_LOG_INLINE_BYTES": "0"},
    "inline": {
        "HEADWATER_LOG_INLINE_BYTES": "1000000",
        "HEADWATER_LOG_MERGE_INTERVAL_MS": "3600000",
    },
    "mixed": {},
}
"""How records travel. Those in objects survive a lost metadata store, inline ones do not."""


class Drill:
    """A cluster whose metadata store can be lost."""

    def __init__(self, data: Path, **environment: str) -> None:
        self.data = data
        self._environment = ENVIRONMENT | environment
        self.cluster = self._start()

    def _start(self) -> PipelineCluster:
        return PipelineCluster(start_headwater(self.data, environment=self._environment), self.data)

    async def snapshot(self) -> None:
        async with self.cluster.open() as place:
            taken = await Snapshotter(
                place.meta,
                place.objects,
                place.reclaimer,
                SystemClock(),
                incarnation=lambda: "drill",
                kept=2,
                offload=in_thread,
            ).take()
            assert taken is not None

    def lose_and_restore(self) -> dict[str, Any]:
        self.cluster.server.stop()
        for file in self.data.glob("metadata.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        told = subprocess.run(
            [COMMAND, "restore", "--data", self.data, "--no-wait", "--json"],
            check=True,
            capture_output=True,
            text=True,
        )
        self.cluster = self._start()
        found: dict[str, Any] = json.loads(told.stdout)
        return found

    def produce(self, count: int, seed: int) -> None:
        self.cluster.produce(TOPIC, count, seed=seed)

    async def compact(self) -> RunSummary:
        summary = await self.cluster.compact(TOPIC)
        assert not summary.failures
        return summary

    def consume(self) -> list[Row]:
        return self.cluster.consume(TOPIC)

    async def fsck(self) -> list[str]:
        told = await asyncio.to_thread(_fsck, self.data)
        return [str(finding) for finding in json.loads(told.stdout)["findings"]]


def _fsck(data: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, "fsck", "--data", data, "--json"], check=False, capture_output=True, text=True
    )


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def drill(tmp_path: Path, kind: str) -> Iterator[Drill]:
    started = Drill(tmp_path / "data", **KINDS[kind])
    started.cluster.create_topic(TOPIC)
    yield started
    started.cluster.server.stop()


async def test_compaction_goes_on_after_a_restore(drill: Drill, kind: str) -> None:
    drill.produce(500, 1)
    await drill.snapshot()
    drill.produce(700, 2)
    await drill.compact()
    compacted = drill.consume()
    assert len(compacted) == 1200
    drill.produce(300, 3)
    before = drill.consume()
    told = drill.lose_and_restore()
    assert told["found"]["unplaced"] == []
    restored = drill.consume()
    assert restored[:1200] == compacted
    # What was neither compacted nor merged comes back once, at its offset or behind.
    rest = Counter(row._replace(offset=0) for row in restored[1200:])
    written = Counter(row._replace(offset=0) for row in before[1200:])
    assert rest <= written
    if kind != "mixed":
        assert rest == (written if kind == "objects" else Counter())
    drill.produce(900, 4)
    await drill.compact()
    rows = drill.consume()
    assert len(rows) == len(restored) + 900
    assert rows[: len(restored)] == restored
    assert await drill.cluster.table(TOPIC) == rows
    assert not await drill.fsck()
