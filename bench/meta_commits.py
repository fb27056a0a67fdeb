"""How long a metadata commit takes on each store, by its size and by the number of processes.

Each stream of a commit reads its tail and writes its tail and one index entry, 200 bytes each.
Where a store bounds its transactions a commit is several of them, one after another, as a broker
commits. Every store runs on this machine, over the same disk.
``python -m bench.meta_commits [STORE ...] [--seconds S] [--directory DIR] [--json]``
"""

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path

import uvloop

from headwater.clock import SystemClock
from headwater.meta import keys
from headwater.meta.store import Values, Writes
from headwater.meta.urls import open_store
from peers.etcd import start_etcd
from peers.oxia import start_oxia
from peers.postgres import start_postgres

STREAMS = (1, 100, 1_000, 10_000)
PROCESSES = (1, 2, 4)
OPERATIONS_PER_STREAM = 2
VALUE = os.urandom(200)

Url = Callable[[str], str]


def append(streams: range, number: int) -> Callable[[Values], tuple[Writes, None]]:
    def decide(values: Values) -> tuple[Writes, None]:
        writes = Writes()
        for stream in streams:
            writes.put(keys.tail(0, stream), VALUE)
            writes.put(keys.index_entry(0, stream, number), VALUE)
        return writes, None

    return decide


async def commit(url: str, streams: range, seconds: float) -> list[float]:
    """Commit one after another; the time of each in milliseconds."""
    store = await open_store(url, SystemClock())
    step = len(streams)
    if store.limits.operations is not None:
        step = min(step, store.limits.operations // OPERATIONS_PER_STREAM)
    parts = [streams[start : start + step] for start in range(0, len(streams), step)]
    tails = [[keys.tail(0, stream) for stream in part] for part in parts]
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end or len(times) < 5:
        for part, wanted in zip(parts, tails, strict=True):
            await store.transact(0, wanted, append(part, len(times)))
        times.append((time.perf_counter() - started) * 1e3)
    await store.close()
    return times


def run(url: str, streams: range, seconds: float) -> list[float]:
    return uvloop.run(commit(url, streams, seconds))


def in_processes(url: str, shares: list[range], seconds: float) -> list[list[float]]:
    """Commit at once, in a process for each share of the streams: gRPC has one loop in its life."""
    with multiprocessing.get_context("spawn").Pool(len(shares)) as pool:
        return pool.starmap(run, [(url, streams, seconds) for streams in shares])


@contextmanager
def sqlite(directory: Path) -> Iterator[Url]:
    yield lambda name: f"sqlite:///{directory}/{name}.db"


@contextmanager
def etcd(directory: Path) -> Iterator[Url]:
    server = start_etcd(directory / "etcd")
    try:
        yield server.url
    finally:
        server.stop()


@contextmanager
def postgres(directory: Path) -> Iterator[Url]:
    server = start_postgres(directory / "postgres")
    try:
        yield lambda name: f"{server.url()}?schema={name.replace('-', '_')}"
    finally:
        server.stop()


@contextmanager
def oxia(directory: Path) -> Iterator[Url]:
    server = start_oxia(directory / "oxia")
    try:
        yield lambda name: f"{server.url()}/{name}"
    finally:
        server.stop()


STORES: dict[str, Callable[[Path], AbstractContextManager[Url]]] = {
    "sqlite": sqlite,
    "etcd": etcd,
    "postgres": postgres,
    "oxia": oxia,
}
"""What starts each store; it gives the URL of an empty one of that name."""


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


def measure(
    directory: Path, seconds: float, stores: Iterable[str] = STORES
) -> dict[str, list[dict[str, float | str]]]:
    by_size: list[dict[str, float | str]] = []
    by_processes: list[dict[str, float | str]] = []
    for store in stores:
        with STORES[store](directory) as url:
            for streams in STREAMS:
                (times,) = in_processes(url(f"size-{streams}"), [range(streams)], seconds)
                by_size.append(
                    {"store": store, "streams": streams, "commits": len(times), **summary(times)}
                )
            for processes in PROCESSES:
                rates = rate(url(f"processes-{processes}"), processes, seconds)
                by_processes.append({"store": store, "processes": processes, **rates})
    return {"fsync": [{**summary(fsyncs(directory))}], "size": by_size, "processes": by_processes}


def rate(url: str, processes: int, seconds: float) -> dict[str, float]:
    results = in_processes(url, [range(4 * n, 4 * n + 4) for n in range(processes)], seconds)
    counts = [len(times) for times in results]
    return {
        "commits_per_second": round(sum(counts) / seconds),
        "slowest_share": round(min(counts) * processes / sum(counts), 2),
    } | summary(list(chain.from_iterable(results)))


def show(rows: list[dict[str, float | str]]) -> None:
    print("".join(f"{name:>20}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>20}" for value in row.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", metavar="STORE", help=f"of {', '.join(STORES)}")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each figure")
    parser.add_argument("--directory", type=Path, default=Path(), help="on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.stores) - STORES.keys():
        parser.error(f"no such store: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        results = measure(Path(directory), options.seconds, options.stores or STORES)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, rows in results.items():
        print(f"\n{name}")
        show(rows)


if __name__ == "__main__":
    main()
