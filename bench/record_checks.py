"""What the check of records costs of the processor time that it takes to produce them."""

import time
from collections.abc import Mapping

from bench.clients import perf
from bench.harness import Bench, Figure, TurnSize
from bench.peer import HEADWATER, Peer
from bench.throughput import ALL, AS_FAST_AS_IT_GOES, PARTITIONS
from headwater.broker.records.record_checks import RecordChecks
from headwater.broker.records.topic_rules import rules_of
from headwater.log.record_work import RecordWork
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import Record, encode_batch

MEGABYTE = 1_000_000
RECORD_SIZES = {100: "100 B", 1_000: "1 KB"}
CHECKS = 1_000
MOST_PERCENT = 5
NOW = 1_700_000_000_000


def share(peer: Peer, size: TurnSize) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for record_bytes, name in RECORD_SIZES.items():
        topic = peer.create_topic(PARTITIONS)
        records = size.records * max(RECORD_SIZES) // record_bytes // 2
        before, batches_before = peer.cpu_seconds(), produced_batches(peer)
        perf(
            "produce", peer.bootstrap, topic, PARTITIONS, records, record_bytes,
            AS_FAST_AS_IT_GOES, ALL,
        )  # fmt: skip
        produced = (peer.cpu_seconds() - before) / (records * record_bytes / MEGABYTE)
        batch_records = round(records / (produced_batches(peer) - batches_before))
        peer.delete_topic(topic)
        for walk, checks in (("all", compiled()), ("the first 100", RecordChecks(RecordWork()))):
            seconds = check_seconds(checks, record_bytes, batch_records)
            values[figure_name(walk, name)] = 100 * seconds / produced
    return values


def compiled() -> RecordChecks:
    from headwater.wire.batches import walk_kernel

    walk_kernel.warm_up()
    work = RecordWork()
    work.walk, work.walks_all = walk_kernel.walk, True
    return RecordChecks(work)


def produced_batches(peer: Peer) -> float:
    """librdkafka sends one batch in a request."""
    return peer.metric("headwater_requests_total", api="Produce")


def check_seconds(checks: RecordChecks, record_bytes: int, count: int) -> float:
    """Processor seconds for a megabyte of records in batches of ``count``."""
    records = [Record(n, NOW + n, None, bytes(record_bytes)) for n in range(count)]
    (batch,) = split_batches(encode_batch(records))
    rules = rules_of({})
    began = time.process_time()
    for _ in range(CHECKS):
        checks.check(batch, rules, NOW)
    return (time.process_time() - began) / (CHECKS * count * record_bytes / MEGABYTE)


def figure_name(walk: str, record: str) -> str:
    return f"check of {walk} records, {record}"


BENCHES = (
    Bench(
        "record-checks",
        "The check of records, of the processor time of produce",
        tuple(
            Figure(figure_name(walk, record), "%", "less", MOST_PERCENT, None)
            for record in RECORD_SIZES.values()
            for walk in ("all", "the first 100")
        ),
        share,
        peers=(HEADWATER,),
    ),
)
