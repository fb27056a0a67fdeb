"""Bytes a second in and out, 1 KB records on three partitions with acks=all."""

from collections.abc import Mapping

from bench.clients import perf, producer_performance
from bench.harness import Bench, Figure, TurnSize
from bench.peer import Peer

PARTITIONS = 3
RECORD_BYTES = 1000
MB_PER_SECOND = "MB/s"
ALL = "acks=all"
AS_FAST_AS_IT_GOES = 0


def load(peer: Peer, topic: str, size: TurnSize) -> float:
    """Fill a topic through librdkafka; the rate at which it went."""
    answer = perf(
        "produce", peer.bootstrap, topic, PARTITIONS, size.records, RECORD_BYTES,
        AS_FAST_AS_IT_GOES, ALL,
    )  # fmt: skip
    return float(answer["mb_per_second"])


def drain(peer: Peer, topic: str, size: TurnSize) -> float:
    answer = perf("consume", peer.bootstrap, topic, PARTITIONS, size.records)
    return float(answer["mb_per_second"])


def produce_java(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    topic = peer.create_topic(PARTITIONS)
    rate = producer_performance(peer.bootstrap, topic, size.records, RECORD_BYTES)
    peer.delete_topic(topic)
    return {"produce, Java": rate}


def produce_librdkafka(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    topic = peer.create_topic(PARTITIONS)
    rate = load(peer, topic, size)
    peer.delete_topic(topic)
    return {"produce, librdkafka": rate}


def consume_cached(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    """What was just written is still in the server's memory, or in the system's page cache."""
    cached = TurnSize(min(size.records, MOST_CACHED_RECORDS), size.seconds)
    topic = peer.create_topic(PARTITIONS)
    load(peer, topic, cached)
    rate = drain(peer, topic, cached)
    peer.delete_topic(topic)
    return {"consume from cache, librdkafka": rate}


MOST_CACHED_RECORDS = 100_000
"""100 MB: less than what Headwater's own cache holds by default."""


def consume_files(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    """After a restart the server has nothing in memory; the page cache is left to both alike."""
    topic = peer.create_topic(PARTITIONS)
    load(peer, topic, size)
    peer.restart()
    rate = drain(peer, topic, size)
    peer.delete_topic(topic)
    return {"consume from files, librdkafka": rate}


BENCHES = (
    Bench(
        "produce-java",
        "Produce throughput, Kafka's ProducerPerformance",
        (Figure("produce, Java", MB_PER_SECOND, "more", 1.0),),
        produce_java,
    ),
    Bench(
        "produce-librdkafka",
        "Produce throughput, librdkafka",
        (Figure("produce, librdkafka", MB_PER_SECOND, "more", 1.0),),
        produce_librdkafka,
    ),
    Bench(
        "consume-cache",
        "Consume throughput of what was just written, librdkafka",
        (Figure("consume from cache, librdkafka", MB_PER_SECOND, "more", 1.0),),
        consume_cached,
    ),
    Bench(
        "consume-files",
        "Consume throughput after a restart, librdkafka",
        (Figure("consume from files, librdkafka", MB_PER_SECOND, "more", 1.0),),
        consume_files,
        warm_up=False,
    ),
)
