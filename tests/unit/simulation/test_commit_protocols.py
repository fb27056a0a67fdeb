"""The commit protocols of etcd and Oxia over simulated servers and bad networks.

Several clients run random transactions at the same time. Requests and replies are lost, and a
write that its client gave up may reach the server minutes later. Whatever happens:

- the changes of all revisions, replayed in order, are what a read finds at the end;
- a transaction that committed wrote exactly what it decided, once, at the revision it names, and
  what it read is what was there just before;
- a transaction that failed as unavailable or lost its session wrote nothing, and one whose outcome
  is unknown wrote all of it once or nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import pytest

from headwater.errors import StoreError, StoreUnavailable, UnknownOutcome
from headwater.meta.etcd.address import parse_etcd_address
from headwater.meta.etcd.store import EtcdStore
from headwater.meta.oxia.committer import OxiaCommitter
from headwater.meta.oxia.head_snapshot import HeadSnapshot
from headwater.meta.oxia.keyspace import CommitLogEntry, OxiaKeyspace
from headwater.meta.oxia.reader import OxiaReader
from headwater.meta.oxia.trimmer import KEPT_MS, OxiaTrimmer
from headwater.meta.store import CommitResult, Decide, T, Values, Writes
from headwater.meta.values import decode
from tests.support.simulation.etcd_members import EtcdState, SimulatedMembers
from tests.support.simulation.loop import SimulatedLoop, run_simulated
from tests.support.simulation.network import Network, Weather, some_weather
from tests.support.simulation.oxia_shard import ShardState, SimulatedShard

KEYS = "abcde"
CLIENTS = 3
TASKS_PER_CLIENT = 2
TRANSACTIONS = 12
LONG_PAUSE = 1_200.0
"""Old commits of Oxia and marks of deleted keys go in such a time."""
LATEST_ARRIVAL = 600.0
SCHEDULES = 60

Changes = Mapping[str, bytes | None]


class CommitClient(Protocol):
    async def transact(self, keys: Sequence[str], decide: Decide[T]) -> CommitResult[T]: ...


@dataclass(slots=True)
class Attempt:
    """One transaction: what its last run saw and decided, and how it ended."""

    values: Values = field(default_factory=dict)
    writes: Writes = field(default_factory=Writes)
    revision: int | None = None
    failure: StoreError | None = None


@dataclass(frozen=True, slots=True)
class SimulatedBackend:
    """A simulated backend."""

    clients: Sequence[CommitClient]
    networks: Sequence[Network]
    changes: Callable[[], Coroutine[Any, Any, list[tuple[int, Changes]]]]
    now: Callable[[], Coroutine[Any, Any, Changes]]
    close: Callable[[], Coroutine[Any, Any, None]]


async def oxia(random: Random, weather: Weather) -> SimulatedBackend:
    state, layout = ShardState(), OxiaKeyspace("cluster")
    networks = [Network(random, weather) for _ in range(CLIENTS)]
    shards = [SimulatedShard(state, network) for network in networks]
    readers = [OxiaReader(shard, layout) for shard in shards]
    committers = [
        OxiaCommitter(
            shard,
            layout,
            reader,
            random,
            lambda _number, _items: None,
            now=asyncio.get_running_loop().time,
        )
        for shard, reader in zip(shards, readers, strict=True)
    ]

    class OxiaClient:
        def __init__(self, committer: OxiaCommitter) -> None:
            self._committer = committer

        async def transact(self, keys: Sequence[str], decide: Decide[T]) -> CommitResult[T]:
            def plan(seen: HeadSnapshot) -> tuple[Writes, T]:
                return decide(seen.values)

            return await self._committer.commit(keys, plan, shareable=True)

    async def changes() -> list[tuple[int, Changes]]:
        return [
            (layout.log_number(key), dict(decode(CommitLogEntry, value).changes))
            for key, value in state.written
            if layout.log_number(key)
        ]

    async def trim() -> None:
        trimmers = [
            OxiaTrimmer(shard, layout, reader, committer)
            for shard, reader, committer in zip(shards, readers, committers, strict=True)
        ]
        while True:
            await asyncio.sleep(random.uniform(0, KEPT_MS / 1000))
            with suppress(StoreError):
                await random.choice(trimmers).trim()

    async def now() -> Changes:
        await clients[0].transact([KEYS[0]], lambda _values: (Writes(), None))
        scan = await readers[0].scan("", "~", None, reverse=False)
        return {entry.key: entry.value for entry in scan.entries}

    async def close() -> None:
        trimming.cancel()

    trimming = asyncio.create_task(trim())
    clients = [OxiaClient(committer) for committer in committers]
    return SimulatedBackend(clients, networks, changes, now, close)


async def etcd(random: Random, weather: Weather) -> SimulatedBackend:
    state = EtcdState()
    networks = [Network(random, weather) for _ in range(CLIENTS)]
    address = parse_etcd_address("etcd://127.0.0.1/cluster")
    stores = [EtcdStore(address, random, SimulatedMembers(state, each)) for each in networks]
    prefix = b"cluster/"

    class EtcdClient:
        def __init__(self, store: EtcdStore) -> None:
            self._store = store

        async def transact(self, keys: Sequence[str], decide: Decide[T]) -> CommitResult[T]:
            return await self._store.transact(0, keys, decide)

    async def changes() -> list[tuple[int, Changes]]:
        return [
            (
                revision,
                {
                    key.removeprefix(prefix).decode(): value
                    for key, value in changed.items()
                    if key.startswith(prefix)
                },
            )
            for revision, changed in state.history
        ]

    async def now() -> Changes:
        return {entry.key: entry.value for entry in (await stores[0].scan("", "~")).entries}

    async def close() -> None:
        for store in stores:
            await store.close()

    return SimulatedBackend([EtcdClient(store) for store in stores], networks, changes, now, close)


def random_writes(random: Random, unique: bytes) -> Writes:
    """At least one put, by whose value the transaction is known."""
    writes = Writes()
    if random.random() < 0.2:
        writes.delete_range(*sorted(random.sample(KEYS, 2)))
    for key in random.sample(KEYS, random.choice([0, 0, 1, 2])):
        writes.delete(key)
    for key in random.sample(KEYS, random.choice([1, 1, 2])):
        writes.put(key, unique)
    writes.deletes = [key for key in writes.deletes if key not in writes.puts]
    return writes


async def transact_at_random(client: CommitClient, random: Random, name: str) -> list[Attempt]:
    attempts = []
    for number in range(TRANSACTIONS):
        await asyncio.sleep(random.uniform(0, random.choice([2, 2, 2, 2, LONG_PAUSE])))
        attempt = Attempt()
        attempts.append(attempt)
        planned = random_writes(random, f"{name}:{number}".encode())
        keys = random.sample(KEYS, random.choice([1, 2, 3]))

        def decide(
            values: Values, attempt: Attempt = attempt, planned: Writes = planned
        ) -> tuple[Writes, None]:
            attempt.values, attempt.writes = values, planned
            return planned, None

        try:
            attempt.revision = (await client.transact(keys, decide)).revision
        except StoreError as error:
            attempt.failure = error
    return attempts


def effect(writes: Writes, before: Changes) -> dict[str, bytes | None]:
    """What a transaction changes in a state; a delete of an absent key changes nothing."""
    ranges = [key for start, end in writes.range_deletes for key in before if start <= key < end]
    gone = {key: None for key in (*writes.deletes, *ranges) if key in before}
    return {**gone, **writes.puts}


def check(history: list[tuple[int, Changes]], attempts: list[Attempt], end: Changes) -> None:
    by_revision: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.revision is not None:
            by_revision.setdefault(attempt.revision, []).append(attempt)
    in_doubt = [each for each in attempts if isinstance(each.failure, UnknownOutcome)]
    state: dict[str, bytes] = {}
    for revision, changes in history:
        there = by_revision.pop(revision, [])
        landed = [
            each
            for each in in_doubt
            if any(changes.get(key) == value for key, value in each.writes.puts.items())
        ]
        in_doubt = [each for each in in_doubt if each not in landed]
        expected: dict[str, bytes | None] = {}
        for attempt in (*there, *landed):
            expected |= effect(attempt.writes, state)
        assert dict(changes) == expected, f"revision {revision}"
        for attempt in there:
            seen = {key: entry and entry.value for key, entry in attempt.values.items()}
            assert seen == {key: state.get(key) for key in seen}, f"revision {revision}"
        for key, value in changes.items():
            state.pop(key, None)
            if value is not None:
                state[key] = value
    assert not by_revision, "a committed transaction is in no revision"
    assert state == end


def calm(cluster: SimulatedBackend) -> None:
    for network in cluster.networks:
        network.weather = Weather(0.001, 0, 0, 0, 0)


async def run_schedule(
    make: Callable[[Random, Weather], Coroutine[Any, Any, SimulatedBackend]], random: Random
) -> int:
    cluster = await make(random, some_weather(random))
    found = await asyncio.gather(
        *(
            transact_at_random(client, random, f"{number}.{task}")
            for number, client in enumerate(cluster.clients)
            for task in range(TASKS_PER_CLIENT)
        )
    )
    calm(cluster)
    await asyncio.sleep(LATEST_ARRIVAL)
    attempts = [attempt for some in found for attempt in some]
    for attempt in attempts:
        assert isinstance(attempt.failure, None | StoreUnavailable | UnknownOutcome)
    end = await cluster.now()
    check(await cluster.changes(), attempts, end)
    await cluster.close()
    return sum(attempt.revision is not None for attempt in attempts)


@pytest.mark.parametrize("make", [oxia, etcd])
def test_transactions_are_atomic_and_in_order(
    make: Callable[[Random, Weather], Coroutine[Any, Any, SimulatedBackend]],
) -> None:
    committed = 0
    for seed in range(SCHEDULES):
        try:
            committed += run_simulated(run_schedule(make, Random(seed)), SimulatedLoop())
        except AssertionError as failed:
            raise AssertionError(f"seed {seed}: {failed}") from failed
    assert committed > SCHEDULES * CLIENTS * TASKS_PER_CLIENT * TRANSACTIONS / 2
