"""How long one record takes at a moderate rate, and how many small requests a server answers."""

from collections.abc import Mapping
from functools import partial

from bench.clients import perf
from bench.harness import Bench, Figure, TurnSize
from bench.peer import HEADWATER, KAFKA, KAFKA_FLUSH, Peer
from bench.throughput import ALL, PARTITIONS, RECORD_BYTES

BUSY_RATE, QUIET_RATE = 1000, 100
"""Records a second. Kafka that flushes every message is at its limit at the first one."""

PRODUCERS = 32


def one_record(peer: Peer, size: TurnSize, *, rate: int) -> Mapping[str, float]:
    topic = peer.create_topic(PARTITIONS)
    answer = perf(
        "latency", peer.bootstrap, topic, PARTITIONS, size.seconds + 1, RECORD_BYTES,
        rate, ALL, "linger.ms=0",
    )  # fmt: skip
    peer.delete_topic(topic)
    return {
        "produce p50": answer["ack_us"]["p50"] / 1e3,
        "produce p99": answer["ack_us"]["p99"] / 1e3,
        "end to end p50": answer["end_to_end_us"]["p50"] / 1e3,
        "end to end p99": answer["end_to_end_us"]["p99"] / 1e3,
    }


def small_requests(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    topic = peer.create_topic(PARTITIONS)
    answer = perf(
        "small", peer.bootstrap, topic, PARTITIONS, size.seconds, RECORD_BYTES, PRODUCERS, ALL
    )
    peer.delete_topic(topic)
    return {
        "requests": answer["per_second"],
        "request p50": answer["ack_us"]["p50"] / 1e3,
        "request p99": answer["ack_us"]["p99"] / 1e3,
    }


BENCHES = (
    Bench(
        "latency",
        "Latency at 1,000 records/s, linger 0; kafka-flush is Kafka at equal durability",
        (
            Figure("produce p50", "ms", "less", 1.5, KAFKA_FLUSH),
            Figure("produce p99", "ms", "less", 1.5, KAFKA_FLUSH),
            Figure("end to end p50", "ms", "less", None, KAFKA_FLUSH),
            Figure("end to end p99", "ms", "less", 1.5, KAFKA_FLUSH),
        ),
        partial(one_record, rate=BUSY_RATE),
        peers=(HEADWATER, KAFKA, KAFKA_FLUSH),
    ),
    Bench(
        "latency-quiet",
        "Latency at 100 records/s, linger 0",
        (
            Figure("produce p50", "ms", "less", None, KAFKA_FLUSH),
            Figure("produce p99", "ms", "less", None, KAFKA_FLUSH),
            Figure("end to end p50", "ms", "less", None, KAFKA_FLUSH),
            Figure("end to end p99", "ms", "less", None, KAFKA_FLUSH),
        ),
        partial(one_record, rate=QUIET_RATE),
        peers=(HEADWATER, KAFKA, KAFKA_FLUSH),
    ),
    Bench(
        "small-requests",
        "32 producers without batching",
        (
            Figure("requests", "1/s", "more", 0.5),
            Figure("request p50", "ms", "less"),
            Figure("request p99", "ms", "less"),
        ),
        small_requests,
    ),
)
