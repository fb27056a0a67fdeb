"""What a snapshot of a large metadata store costs: ``python -m bench.snapshot [KEYS]``.

Fills a SQLite store, takes a snapshot into a directory, and prints the growth of resident memory,
the longest stall of the event loop and the objects that were written.
"""

import asyncio
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random

import apsw

from headwater.clock import SystemClock
from headwater.log.engine import open_cluster
from headwater.log.read.parquet.source import in_thread
from headwater.log.reclaim.reclaimer import Reclaimer
from headwater.log.restore.snapshots import Snapshotter
from headwater.meta import keys
from headwater.meta.sqlite import SqliteStore
from headwater.objects.local.store import LocalDirectory

VALUE_BYTES = 150
MIB = 2**20


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def fill(path: Path, count: int) -> None:
    """Index entries of 1,000 streams, straight into the file."""
    noise = Random(1).randbytes(VALUE_BYTES * 1000)
    rows = (
        (
            keys.index_entry(0, number % 1000, number),
            noise[number % 997 : number % 997 + VALUE_BYTES],
            1,
        )
        for number in range(count)
    )
    with closing(apsw.Connection(str(path))) as file, file:
        file.executemany("INSERT INTO kv (key, value, revision) VALUES (?, ?, ?)", rows)


async def watch(stalls: list[float], peak: list[int]) -> None:
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.001)
        stalls.append(time.monotonic() - began - 0.001)
        peak[0] = max(peak[0], resident())


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(4) as executor:
        path = Path(place) / "metadata.db"
        await (await SqliteStore.open(path, SystemClock())).close()
        fill(path, count)
        meta = await SqliteStore.open(path, SystemClock())
        objects = LocalDirectory(Path(place) / "objects", executor=executor)
        await open_cluster(meta, Random(1))
        snapshotter = Snapshotter(
            meta,
            objects,
            Reclaimer(objects),
            SystemClock(),
            incarnation=lambda: "x",
            kept=1,
            offload=in_thread,
        )
        before, stalls = resident(), [0.0]
        peak = [before]
        watching = asyncio.create_task(watch(stalls, peak))
        began, used = time.monotonic(), time.process_time()
        taken = await snapshotter.take()
        took, used = time.monotonic() - began, time.process_time() - used
        watching.cancel()
        assert taken is not None
        stored = [info.size async for info in objects.list("snapshots/")]
        print(f"{taken.entries} keys, {taken.bytes / MIB:.0f} MiB: {took:.1f} s, {used:.1f} s CPU")
        print(f"resident memory +{(peak[0] - before) / MIB:.0f} MiB at most")
        print(f"longest stall of the loop {max(stalls) * 1000:.0f} ms")
        print(f"{len(stored)} objects, {sum(stored) / MIB:.0f} MiB, up to {max(stored) / MIB:.1f}")
        await meta.close()
        await objects.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000))
