"""One run: clients of every kind at work, harm being done, and the reading of everything."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.system.faults.cluster import FaultyCluster
from tests.system.faults.nemesis import ClusterHarm, ClusterNemesis
from tests.system.invariants import checker
from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.groups import checker as groups_checker
from tests.system.invariants.groups.fleet import Fleet
from tests.system.invariants.groups.history import GroupHistory
from tests.system.invariants.groups.member import LONG_MS
from tests.system.invariants.groups.replay import replay_late_commits
from tests.system.invariants.groups.watch import until_at_work, until_drained, watch_offsets
from tests.system.invariants.history import History, Produced
from tests.system.invariants.producers.clients import RETRIABLE, TOPIC, BrokerConnection, Choose
from tests.system.invariants.producers.kafka_python import produce_in_order
from tests.system.invariants.producers.librdkafka import produce, produce_anew
from tests.system.invariants.producers.workload import IN_FLIGHT, PipeliningProducer, consume
from tests.system.invariants.schedule import read_finals

PARTITIONS = 4
MEMBERS: Mapping[str, int] = {"cooperative-sticky": 2, "consumer": 2}
PRODUCERS = [*[(True, IN_FLIGHT)] * 3, (True, 1), (False, IN_FLIGHT), (False, 1), (False, 1)]
"""Whether each is idempotent, and how many batches it has under way."""
PAUSE = 0.05
"""Seconds between two records of a real client to a partition."""
QUIET_SECONDS = 150.0
"""How long everything may take to be answered, read and committed once nothing is harmed."""
THREADS = 64
"""Real clients take four for as long as they run, and a broker that starts has one while it waits
for its stores. By default two cores have six, which leaves none to heal what is waited for."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run did and saw."""

    history: History
    groups: GroupHistory
    faults: Counter[ClusterHarm]
    together: int

    @property
    def acknowledged(self) -> int:
        return sum(1 for one in self.history.produced if one.offset is not None)

    @property
    def unanswered(self) -> int:
        return sum(1 for one in self.history.produced if one.offset is None)

    @property
    def polled(self) -> int:
        return sum(1 for one in self.history.polled if one.records)

    @property
    def processed(self) -> int:
        return sum(map(len, self.groups.processed.values()))

    @property
    def slowest(self) -> float:
        """Seconds that a real client's record took, with all that was done to deliver it."""
        taken = (one.completed - one.invoked for one in self.history.produced if one.delivered)
        return max(taken, default=0.0)

    def findings(self) -> list[str]:
        """Every broken promise, in words."""
        return [
            *checker.violations(self.history, away=RETRIABLE),
            *groups_checker.violations(self.groups),
        ]

    def summary(self) -> str:
        """How many operations and faults there were."""
        return (
            f"{self.acknowledged} batches acknowledged, {self.unanswered} attempts unanswered, "
            f"{self.slowest:.0f} s the slowest record of a client that retries by itself, "
            f"{self.polled} polls with records, {self.processed} records processed by groups, "
            f"{len(self.groups.committed)} commits, {len(self.groups.fetched)} looks at offsets; "
            f"{sum(self.faults.values())} faults, {self.together} times several at once: "
            + ", ".join(
                f"{harm.value} {count}"
                for harm, count in sorted(self.faults.items(), key=lambda item: item[0].value)
            )
        )


async def run(cluster: FaultyCluster, rng: Random, seconds: float) -> RunOutcome:
    """Produce, consume and do harm at once; then read everything through every broker."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    history, groups, fleet = History(), GroupHistory(), Fleet(static_session_ms=LONG_MS)
    async with await BrokerConnection.open(cluster.brokers[1]) as first:
        await first.create_topic(PARTITIONS)
        producers = await _producers(cluster, history, rng, first)
    for kind, count in MEMBERS.items():
        fleet.add(cluster.directory, cluster.bootstrap, TOPIC, f"group-{kind}", kind, count)
    fleet.start()
    nemesis = ClusterNemesis(cluster, Random(rng.random()))
    try:
        await _work(cluster, fleet, producers, nemesis, history, groups, rng, seconds)
        assert not fleet.fallen(), [member.log() for member in fleet.fallen()]
        await fleet.leave()
        fleet.tell(groups)
    except BaseException as error:
        fleet.tell(groups)
        error.add_note(RunOutcome(history, groups, nemesis.done, nemesis.together).summary())
        raise
    finally:
        await fleet.kill()
    return RunOutcome(history, groups, nemesis.done, nemesis.together)


async def _producers(
    cluster: FaultyCluster, history: History, rng: Random, first: BrokerConnection
) -> list[PipeliningProducer]:
    return [
        PipeliningProducer(
            f"{'i' if idempotent else 'p'}{number}",
            number % PARTITIONS,
            history,
            _chooser(cluster, rng),
            Random(rng.random()),
            producer_id=await first.producer_id() if idempotent else -1,
            in_flight=in_flight,
        )
        for number, (idempotent, in_flight) in enumerate(PRODUCERS)
    ]


def _real(cluster: FaultyCluster) -> list[Callable[[threading.Event], list[Produced]]]:
    """Producers of real clients, which retry by themselves."""

    def librdkafka(idempotent: bool, stop: threading.Event) -> list[Produced]:
        name = f"k{idempotent:d}"
        return produce(
            cluster.bootstrap, name, PARTITIONS, stop, idempotent=idempotent, pause=PAUSE
        )

    def new_librdkafka(stop: threading.Event) -> list[Produced]:
        return produce_anew(cluster.bootstrap, "n", PARTITIONS, stop, pause=PAUSE / 5)

    def kafka_python(stop: threading.Event) -> list[Produced]:
        return produce_in_order(cluster.bootstrap, "kp", PARTITIONS, stop, pause=PAUSE)

    return [partial(librdkafka, True), partial(librdkafka, False), new_librdkafka, kafka_python]


def _chooser(cluster: FaultyCluster, rng: Random) -> Choose:
    def choose() -> ServeProcess:
        up = [broker for broker in cluster.brokers.values() if broker.up]
        return rng.choice(up or list(cluster.brokers.values()))

    return choose


async def _work(
    cluster: FaultyCluster,
    fleet: Fleet,
    producers: list[PipeliningProducer],
    nemesis: ClusterNemesis,
    history: History,
    groups: GroupHistory,
    rng: Random,
    seconds: float,
) -> None:
    stop, ended, stopping = asyncio.Event(), asyncio.Event(), threading.Event()
    async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
        for partition in range(PARTITIONS):
            reader, choose = Random(rng.random()), _chooser(cluster, rng)
            tasks.create_task(consume(history, partition, choose, reader, ended))
        for group in fleet.groups:
            watcher = Random(rng.random())
            tasks.create_task(watch_offsets(cluster, group, groups, watcher, ended))
        tasks.create_task(replay_late_commits(cluster, fleet, groups, Random(rng.random()), ended))
        work = [tasks.create_task(producer.run(stop)) for producer in producers]
        threads = [
            tasks.create_task(asyncio.to_thread(client, stopping)) for client in _real(cluster)
        ]
        try:
            await until_at_work(fleet)
            harm = tasks.create_task(nemesis.run(stop))
            await asyncio.sleep(seconds)
            stop.set()
            await harm
            limit.reschedule(asyncio.get_running_loop().time() + QUIET_SECONDS)
            stopping.set()
            await asyncio.gather(*work, *threads)
            history.produced += itertools.chain.from_iterable(each.result() for each in threads)
            groups.produced |= {
                (one.partition, one.offset + place)
                for one in history.produced
                if one.offset is not None
                for place in range(len(one.values))
            }
            await until_drained(cluster, fleet, groups, PARTITIONS)
        finally:
            stopping.set()
            ended.set()
    await read_finals(cluster, history, PARTITIONS)
