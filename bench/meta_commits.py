"""How long a metadata transaction takes on SQLite, by its size and by the number of processes.

Each stream of a transaction reads its tail and writes its tail and one index entry, 200 bytes
each. ``python bench/meta_commits.py [--seconds S] [--directory DIR] [--json]``
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import uvloop

from headwater.clock import SystemClock
from headwater.meta import keys
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Values, Writes

STREAMS = (1, 100, 1_000, 10_000)
PROCESSES = (1, 2, 4)
VALUE = os.urandom(200)


def append(streams: range, number: int) -> Callable[[Values], tuple[Writes, None]]:
    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        for stream in streams:
            writes.put(keys.tail(0, stream), VALUE)
            writes.put(keys.index_entry(0, stream, number), VALUE)
        return writes, None

    return decide


async def commit(path: Path, streams: range, seconds: float) -> list[float]:
    """Commit one after another; the time of each in milliseconds."""
    store = await SqliteStore.open(path, SystemClock())
    tails = [keys.tail(0, stream) for stream in streams]
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end or len(times) < 5:
        await store.transact(0, tails, append(streams, len(times)))
        times.append((time.perf_counter() - started) * 1e3)
    await store.close()
    return times


def commit_in_process(path: Path, first: int, seconds: float) -> list[float]:
    return uvloop.run(commit(path, range(first, first + 4), seconds))


def fsyncs(directory: Path) -> list[float]:
    """The disk's own time for 4 KiB and a flush, in milliseconds."""
    times = []
    with (directory / "fsync").open("wb", buffering=0) as file:
        for _ in range(300):
            started = time.perf_counter()
            file.write(VALUE * 20)
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1e3)
    return times


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 3),
        "max_ms": round(ordered[-1], 3),
    }


def measure(directory: Path, seconds: float) -> dict[str, list[dict[str, float]]]:
    by_size = []
    for streams in STREAMS:
        path = directory / f"size-{streams}.db"
        times = uvloop.run(commit(path, range(streams), seconds))
        by_size.append({"streams": streams, "commits": len(times)} | summary(times))
    by_processes = []
    for processes in PROCESSES:
        path = directory / f"processes-{processes}.db"
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            jobs = [(path, 4 * number, seconds) for number in range(processes)]
            results = pool.starmap(commit_in_process, jobs)
        counts = [len(times) for times in results]
        rate = {
            "processes": processes,
            "commits_per_second": round(sum(counts) / seconds),
            "slowest_share": round(min(counts) * processes / sum(counts), 2),
        }
        by_processes.append(rate | summary(list(chain.from_iterable(results))))
    return {"fsync": [summary(fsyncs(directory))], "size": by_size, "processes": by_processes}


def show(rows: list[dict[str, float]]) -> None:
    print("".join(f"{name:>20}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>20}" for value in row.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        results = measure(Path(directory), options.seconds)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, rows in results.items():
        print(f"\n{name}")
        show(rows)


if __name__ == "__main__":
    main()
