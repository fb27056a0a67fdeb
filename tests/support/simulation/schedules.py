"""What random schedules share: the world they begin with, its faults, and how they end.

``HEADWATER_SIMULATION_SEEDS=17`` or ``=100-299`` (inclusive) replaces the seeds of a test.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from random import Random
from typing import Any

from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits
from tests.support.simulation.loop import SimulatedClock, SimulatedLoop, run_simulated
from tests.support.simulation.world import SimulatedCluster

PRODUCING_SECONDS = 3600
"""Far longer than producers need, whatever the faults."""


def random_settings(rng: Random) -> LogSettings:
    return LogSettings(
        inline_bytes=rng.choice([0, 500, 1 << 20]),
        flush_bytes=rng.choice([1, 2000, 1 << 20]),
        flush_interval_ms=rng.choice([0, 250]),
        uploads=rng.choice([1, 2, 4]),
        object_bytes=rng.choice([1, 10_000, 1 << 20]),
        cache_bytes=rng.choice([1, 20_000, 1 << 20]),
        read_bytes=rng.choice([1000, 1 << 20]),
        window_entries=rng.choice([1, 4, 100]),
        merge_fan_in=rng.choice([2, 4, 16]),
        merge_interval_ms=rng.choice([200, 3000]),
        merge_age_ms=0,
        sweep_interval_ms=5_000,
        gc_interval_ms=2_000,
        gc_grace_ms=10_000,
        orphan_grace_ms=rng.choice([0, 5_000]),
        snapshot_interval_ms=rng.choice([0, 10_000]),
    )


async def random_world(loop: SimulatedLoop, rng: Random, settings: LogSettings) -> SimulatedCluster:
    """A cluster that has just started; its stores have no faults yet."""
    world = SimulatedCluster(
        rng=rng,
        clock=SimulatedClock(loop),
        brokers=rng.choice([1, 2, 3]),
        settings=settings,
        limits=rng.choice([None, Limits(operations=7)]),
        objects_grow=rng.random() < 0.5,
    )
    await world.start()
    return world


def begin_faults(world: SimulatedCluster) -> None:
    rng = world.rng
    world.meta_faults.lost_answer = rng.choice([0, 0.1, 0.3])
    world.meta_faults.lost_request = rng.choice([0, 0.1])
    world.meta_faults.delay = rng.choice([0, 0.01, 0.3])
    world.object_faults.after = rng.choice([0, 0.1])
    world.object_faults.longest_delay = rng.choice([0, 0.05, 0.5])


async def disturb(world: SimulatedCluster) -> None:
    """Kill and fence brokers, and have the stores fail and lag, for ever."""
    rng = world.rng
    while True:
        await asyncio.sleep(rng.uniform(0.5, 6))
        match rng.randrange(4):
            case 0:
                await world.kill_one()
            case 1:
                living = world.living()
                if living:  # as after a pause that outlasted its session
                    await fence(MemoryStore(database=world.database), rng.choice(living))
            case 2:
                world.meta_faults.unavailable = rng.choice([0, 0.2])
                world.object_faults.before = rng.choice([0, 0.2])
            case 3:
                world.meta_faults.watch_delay = rng.choice([0, 0.1, 3])
        world.check_engines_live()


async def until_produced(
    producers: Iterable[Awaitable[None]], others: Iterable[Awaitable[None]]
) -> None:
    """Wait for the producers, beside what others do for ever; whatever fails fails this."""
    finished = asyncio.ensure_future(_all(producers))
    helpers = [asyncio.ensure_future(other) for other in others]
    done, _ = await asyncio.wait(
        [finished, *helpers], timeout=PRODUCING_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    assert done, "producers did not finish"
    for task in done:
        task.result()
    for task in helpers:
        task.cancel()
    await asyncio.wait(helpers)
    for task in helpers:
        if not task.cancelled():
            task.result()


async def _all(producers: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*producers)


def run_schedules(
    schedule: Callable[[SimulatedLoop, int], Coroutine[Any, Any, None]], seeds: range
) -> None:
    """Run a schedule once with each seed, each on a loop of its own."""
    for seed in asked_seeds(os.environ.get("HEADWATER_SIMULATION_SEEDS", "")) or seeds:
        loop = SimulatedLoop()
        try:
            run_simulated(schedule(loop, seed), loop)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def asked_seeds(text: str) -> range | None:
    """The seeds that were asked for, if any were.

    >>> asked_seeds("17"), asked_seeds("100-299"), asked_seeds("")
    (range(17, 18), range(100, 300), None)
    """
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else None
