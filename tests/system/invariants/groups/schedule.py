"""One schedule of groups: members at work, records coming in, harm being done, and the drain."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from confluent_kafka import KafkaError, Message, Producer

from tests.system.invariants.cluster import SETTINGS, LocalCluster
from tests.system.invariants.groups.checker import violations
from tests.system.invariants.groups.fleet import Fleet
from tests.system.invariants.groups.history import GroupHistory
from tests.system.invariants.groups.nemesis import GroupNemesis
from tests.system.invariants.groups.replay import replay_late_commits
from tests.system.invariants.groups.watch import until_at_work, until_drained, watch_offsets
from tests.system.invariants.producers.clients import TOPIC, BrokerConnection

FAULTS = int(os.environ.get("HEADWATER_CHAOS_FAULTS", "6"))
PARTITIONS = 18
RECORDS_PER_SECOND = 300
FLUSH_SECONDS = 45.0

GROUPS: Mapping[str, int] = {
    "initial_rebalance_delay_ms": 200,
    "consumer_session_timeout_ms": 6_000,
    "consumer_heartbeat_interval_ms": 500,
}
"""Settings of the brokers, so that faults are noticed within the test."""


@asynccontextmanager
async def running_groups(directory: Path, kinds: Mapping[str, int]) -> AsyncIterator[
    tuple[LocalCluster, Fleet]
]:  # fmt: skip
    """Three brokers, a topic, and a group for each of ``kinds``; all end with the block.

    ``kinds`` has numbers of members. A kind is the assignor of a classic group, or ``consumer``.
    """
    cluster, fleet = LocalCluster(directory, SETTINGS), Fleet()
    try:
        for number in range(1, 4):
            broker = cluster.add(number)
            for name, value in GROUPS.items():
                broker.environment[f"HEADWATER_GROUPS_{name.upper()}"] = str(value)
        await asyncio.gather(*(broker.start() for broker in cluster.brokers.values()))
        async with await BrokerConnection.open(cluster.brokers[1]) as connection:
            await connection.create_topic(PARTITIONS)
        for kind, count in kinds.items():
            fleet.add(directory, cluster.bootstrap, TOPIC, f"group-{kind}", kind, count)
        fleet.start()
        yield cluster, fleet
    except BaseException as error:
        error.add_note(cluster.logs())
        raise
    finally:
        await fleet.kill()
        await cluster.kill_all()


async def run_groups(cluster: LocalCluster, fleet: Fleet, rng: Random, faults: int) -> GroupHistory:
    """Produce, consume and do ``faults`` harms at once; then wait until all is processed."""
    history = GroupHistory()
    stop_producing, stop_watching = threading.Event(), asyncio.Event()
    nemesis = GroupNemesis(cluster, fleet, Random(rng.random()), faults)
    work = asyncio.create_task(asyncio.to_thread(produce, cluster, history, stop_producing))
    watch = [
        asyncio.create_task(
            watch_offsets(cluster, group, history, Random(rng.random()), stop_watching)
        )
        for group in fleet.groups
    ]
    replay = replay_late_commits(cluster, fleet, history, Random(rng.random()), stop_watching)
    watch.append(asyncio.create_task(replay))
    try:
        await until_at_work(fleet)
        await nemesis.run()
        stop_producing.set()
        await work
        await until_drained(cluster, fleet, history, PARTITIONS)
    except BaseException as error:
        fleet.tell(history)
        error.add_note("\n".join([f"done: {dict(nemesis.done)}", *violations(history)[:20]]))
        error.add_note("\n".join(f"{each.files.name}: {each.log()}" for each in fleet.fallen()))
        raise
    finally:
        stop_producing.set()
        stop_watching.set()
        await asyncio.wait([work, *watch])
    await asyncio.gather(*watch)
    assert not fleet.fallen()
    await fleet.leave()
    fleet.tell(history)
    return history


def produce(cluster: LocalCluster, history: GroupHistory, stop: threading.Event) -> None:
    """Send records to all partitions at a steady rate until ``stop``; all must be delivered.

    Nobody else writes: a partition has as many as were sent to it, one behind the other. Where
    they are librdkafka does not always say: the answer to a later batch tells it that those before
    it, whose own answers were lost, have arrived.
    """
    failed: list[KafkaError] = []
    delivered: Counter[int] = Counter()
    told: set[tuple[int, int]] = set()

    def report(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        delivered[partition] += 1
        if offset is not None:
            told.add((partition, offset))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
            "socket.timeout.ms": 2_000,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    sent = 0
    while not stop.wait(PARTITIONS / RECORDS_PER_SECOND):
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"%d" % sent, partition=partition, on_delivery=report)
            sent += 1
        producer.poll(0)
    assert producer.flush(FLUSH_SECONDS) == 0, "records were not delivered"
    assert not failed, failed[0]
    history.produced |= {
        (partition, offset) for partition, count in delivered.items() for offset in range(count)
    }
    assert told <= history.produced, f"more than was sent: {told - history.produced}"
