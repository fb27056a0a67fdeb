"""An idle broker releases memory, and a busy one does not."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.broker import idle_memory
from headwater.broker.idle_memory import (
    BUSY_FRACTION,
    IDLE_SECONDS,
    IdleDetector,
    release_memory_when_idle,
)
from headwater.log.engine import LogEngine
from tests.support.broker.serving import serving

LOOK = 10.0


def releases(detector: IdleDetector, *uses: float) -> list[int]:
    """The numbers of the samples at which memory was released; ``uses`` are fractions."""
    now = cpu = 0.0
    found = []
    for number, use in enumerate(uses):
        now += LOOK
        cpu += LOOK * use
        if detector.sample(now, cpu):
            found.append(number)
    return found


def test_memory_is_released_once_in_each_idle_period() -> None:
    waits = int(IDLE_SECONDS / LOOK)
    idle = [BUSY_FRACTION / 2] * (2 * waits)
    busy = [BUSY_FRACTION * 2] * waits
    assert releases(IdleDetector(0.0, 0.0), *idle) == [waits - 1]
    found = releases(IdleDetector(0.0, 0.0), *busy, *idle, *busy, *idle)
    assert found == [2 * waits - 1, 5 * waits - 1]
    assert releases(IdleDetector(0.0, 0.0), *([0.0] * (waits - 1) + busy) * 3) == []


async def test_caches_are_released_before_the_heap_is_trimmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    async def release() -> None:
        done.append("caches")

    def trim() -> None:
        done.append("heap")
        loop.call_soon_threadsafe(ended.set)

    monkeypatch.setattr(idle_memory, "trim_heap", trim)
    monkeypatch.setattr(idle_memory, "SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(idle_memory, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr("headwater.broker.idle_memory.time.process_time", lambda: 0.0)
    task = asyncio.create_task(release_memory_when_idle(release))
    async with asyncio.timeout(30):
        await ended.wait()
    task.cancel()
    await asyncio.wait([task])
    assert done == ["caches", "heap"]


async def test_a_running_broker_releases_its_engines_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()

    async def release(_: LogEngine) -> None:
        released.set()

    monkeypatch.setattr(LogEngine, "release_memory", release)
    monkeypatch.setattr(idle_memory, "trim_heap", lambda: None)
    monkeypatch.setattr(idle_memory, "SAMPLE_SECONDS", 0.01)
    monkeypatch.setattr(idle_memory, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(idle_memory, "BUSY_FRACTION", 1_000)
    async with serving(tmp_path), asyncio.timeout(30):
        await released.wait()


FREED_BETWEEN_USED_BLOCKS = """
from headwater.broker.idle_memory import trim_heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

blocks = [bytearray(60_000) for _ in range(3_000)]
kept = blocks[::10]
del blocks
before = resident()
trim_heap()
print(before - resident())
"""


def test_trimming_returns_free_memory_between_blocks_in_use() -> None:
    child = subprocess.run(
        [sys.executable, "-c", FREED_BETWEEN_USED_BLOCKS],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(child.stdout) > 100
