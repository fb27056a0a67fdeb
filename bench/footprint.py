"""What a server takes: memory at full load, time to start, processor time when idle, PUTs."""

import time
from collections.abc import Mapping

from bench.clients import perf
from bench.harness import Bench, Figure, TurnSize
from bench.latency import PRODUCERS
from bench.peer import HEADWATER, Peer
from bench.throughput import ALL, PARTITIONS, RECORD_BYTES, drain, load

PARTITION_COUNTS = (1, 100, 10_000)
PUT_RATE = 10_000
"""Records a second while PUTs are counted: 10 MB/s, well below what any of them can take."""

SETTLE_SECONDS = 5.0


def resources(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    """The process is new; then it is idle, takes bulk, serves it, and takes small requests."""
    peer.restart()
    started_in = peer.server.started_in
    time.sleep(SETTLE_SECONDS)
    before = peer.cpu_seconds()
    time.sleep(size.seconds)
    idle = (peer.cpu_seconds() - before) / size.seconds * 100
    topic = peer.create_topic(PARTITIONS)
    load(peer, topic, size)
    drain(peer, topic, size)
    perf("small", peer.bootstrap, topic, PARTITIONS, size.seconds / 2, RECORD_BYTES, PRODUCERS, ALL)
    memory = peer.peak_memory_mib()
    peer.delete_topic(topic)
    return {"peak memory": memory, "start to listening": started_in, "idle processor": idle}


def puts(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for partitions in PARTITION_COUNTS:
        topic = peer.create_topic(partitions)
        records = int(PUT_RATE * size.seconds)
        before, began = put_count(peer), time.monotonic()
        perf(
            "produce", peer.bootstrap, topic, partitions, records, RECORD_BYTES, PUT_RATE, ALL,
        )  # fmt: skip
        values[f"PUTs, {partitions:,} partitions"] = (put_count(peer) - before) / (
            time.monotonic() - began
        )
        peer.delete_topic(topic)
    fewest, *_, most = values.values()
    values["PUTs, most by fewest partitions"] = most / fewest
    return values


def put_count(peer: Peer) -> float:
    return peer.metric("headwater_object_requests_total", kind="put")


BENCHES = (
    Bench(
        "resources",
        "What the process takes",
        (
            Figure("peak memory", "MiB", "less", 400, None),
            Figure("start to listening", "s", "less", 1.5, None),
            Figure("idle processor", "%", "less", 1.0, None),
        ),
        resources,
        warm_up=False,
    ),
    Bench(
        "puts",
        "Objects written at 10 MB/s with a paid store's least time between flushes",
        (
            *(Figure(f"PUTs, {count:,} partitions", "1/s", "less") for count in PARTITION_COUNTS),
            Figure("PUTs, most by fewest partitions", "x", "less", 1.2, None),
        ),
        puts,
        peers=(HEADWATER,),
        warm_up=False,
        environment={"HEADWATER_LOG_FLUSH_INTERVAL_MS": "250"},
    ),
)
