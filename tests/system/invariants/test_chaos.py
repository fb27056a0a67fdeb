"""Real brokers on one database and one directory, killed and stopped at any moment.

Two and three brokers take the same partitions at once while clients go from one to another.
``HEADWATER_CHAOS_SECONDS`` makes the schedules longer, ``HEADWATER_CHAOS_SEED`` repeats one. The
clock is real, so that a seed fixes what is tried and not what happens.
"""

from pathlib import Path

import pytest

from tests.system.invariants.cluster import running_cluster
from tests.system.invariants.nemesis import BrokerHarm
from tests.system.invariants.schedule import (
    SECONDS,
    assert_kept,
    random_settings,
    run_schedule,
    seeded,
)

pytestmark = pytest.mark.timeout(SECONDS + 90)


@pytest.mark.parametrize("brokers", [2, 3])
async def test_brokers_killed_and_stopped_at_any_moment_keep_the_invariants(
    tmp_path: Path, brokers: int
) -> None:
    with seeded() as rng:
        faults = dict.fromkeys(range(rng.randint(0, brokers) + 1), "lost-answers=0.05")
        settings = random_settings(rng)
        async with running_cluster(tmp_path, brokers, faults=faults, **settings) as cluster:
            history = await run_schedule(cluster, rng, [list(BrokerHarm)] * (brokers - 1))
            await assert_kept(cluster, history)


async def test_consumers_see_no_half_swapped_index_while_it_is_merged_and_trimmed(
    tmp_path: Path,
) -> None:
    with seeded() as rng:
        async with running_cluster(
            tmp_path,
            2,
            cache_bytes=rng.choice([1, 10_000]),
            read_bytes=rng.choice([1_000, 1_000_000]),
            window_entries=rng.choice([1, 8]),
            inline_bytes=rng.choice([0, 2_000]),
            merge_fan_in=2,
            merge_interval_ms=10,
            sweep_interval_ms=50,
            gc_interval_ms=50,
            gc_grace_ms=200,
        ) as cluster:
            harms = [[BrokerHarm.TRIM], [BrokerHarm.PAUSE]]
            history = await run_schedule(cluster, rng, harms, enough=lambda: cluster.merges() > 20)
            await assert_kept(cluster, history)
