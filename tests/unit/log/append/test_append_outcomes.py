"""``Engine.append``: only ``RequestTimedOut`` leaves open what became of a batch."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import KafkaError, NotLeaderOrFollower, RequestTimedOut, UnknownOutcome
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryDatabase, MemoryStore
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, read_all, running_engine
from tests.support.log.writing import TroubledLogWriter, outcomes, simulate
from tests.support.meta.faulty import FaultyStore, MetadataFaults
from tests.support.simulation.loop import SimulatedLoop, run_simulated


def test_fence_after_a_lost_answer_leaves_the_outcome_open() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        bench.meta_faults.strike(range(1), UnknownOutcome("lost"), after=True)
        landed = bench.append()
        await asyncio.sleep(0.002)
        behind = bench.append(stream=2)
        await fence(bench.store, "a")
        assert await outcomes([landed, behind]) == ["RequestTimedOut", "Fenced"]
        assert bench.unknown_outcomes == 1
        assert bench.writer.failed.is_set()
        assert await outcomes([bench.append()]) == ["Fenced"]

    simulate(work)


def test_fence_alone_says_that_nothing_landed() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        await fence(bench.store, "a")
        with pytest.raises(NotLeaderOrFollower):
            await bench.append()
        assert not bench.unknown_outcomes

    simulate(work)


def test_an_unexpected_failure_after_the_commit_began_leaves_the_outcome_open() -> None:
    async def work(bench: TroubledLogWriter) -> None:
        class FailingSubscriber:
            def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
                raise RuntimeError(f"{len(landed)} chunks landed and nobody can be told")

        bench.writer._subscribers = [FailingSubscriber()]
        assert await outcomes([bench.append()]) == ["RequestTimedOut"]
        bench.object_faults.strike(range(1), RuntimeError("an upload fails oddly"))
        assert await outcomes([bench.append()]) == ["KafkaStorageError"]

    simulate(work)


async def append_under_faults(seed: int) -> tuple[int, int]:
    """Appends by a broker whose store fails and which is fenced; how many failed, and in doubt.

    The records that another broker reads at the end are compared with the first one's answers.
    """
    rng, database = Random(seed), MemoryDatabase()
    objects = MemoryObjects(clock=SystemClock())
    faults = MetadataFaults()
    store = FaultyStore(MemoryStore(database=database), rng, faults)
    told: dict[bytes, KafkaError | None] = {}
    settings = LogSettings(inline_bytes=rng.choice((0, 1_000)), append_timeout_ms=2_000)

    async with (
        running_engine(
            MemoryStore(database=database), objects, broker_id=9, housekeeping=False
        ) as reader,
        running_engine(store, objects, settings=settings, rng=rng) as engine,
    ):
        await engine.topics.create("t", 1, {})

        async def one(payload: bytes) -> None:
            try:
                await append(engine, "t", [make_batch(payload)])
                told[payload] = None
            except KafkaError as error:
                told[payload] = error

        faults.lost_answer, faults.lost_request, faults.unavailable = 0.3, 0.2, 0.1
        faults.delay = 0.2
        tasks = []
        for number in range(60):
            tasks.append(asyncio.create_task(one(b"%d" % number)))
            await asyncio.sleep(rng.uniform(0, 0.3))
            if rng.random() < 0.1:
                await fence(MemoryStore(database=database), engine.incarnation)
        await asyncio.gather(*tasks)
        for name in MetadataFaults.__slots__:
            setattr(faults, name, 0.0)
        await asyncio.sleep(10)
        seen = [payload for _, payload in await read_all(reader, "t")]
    assert len(seen) == len(set(seen))
    for payload, error in told.items():
        if error is None:
            assert payload in seen
        elif not isinstance(error, RequestTimedOut):
            assert payload not in seen, f"{payload!r} is there in spite of {error!r}"
    in_doubt = [p for p, error in told.items() if isinstance(error, RequestTimedOut) and p in seen]
    return sum(error is not None for error in told.values()), len(in_doubt)


def test_no_batch_that_was_reported_as_failed_is_in_the_log() -> None:
    totals = [run_simulated(append_under_faults(seed), SimulatedLoop()) for seed in range(20)]
    assert sum(failed for failed, _ in totals) > 20
    assert sum(doubtful for _, doubtful in totals) > 0
