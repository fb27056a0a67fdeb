"""Three brokers on S3 with each metadata store, through faults of every kind, alone and combined.

``HEADWATER_FAULT_SECONDS`` says how long each pairing is harmed, ``HEADWATER_FAULT_METADATA`` and
``HEADWATER_FAULT_OBJECTS`` name the stores, ``HEADWATER_CHAOS_SEED`` repeats what is tried. The
clock is real, so that a seed fixes what is tried and not what happens.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.faults.cluster import running_cluster
from tests.system.faults.nemesis import ClusterHarm
from tests.system.faults.schedule import QUIET_SECONDS, run
from tests.system.faults.stores import METADATA
from tests.system.invariants.schedule import random_settings, seeded

SECONDS = float(os.environ.get("HEADWATER_FAULT_SECONDS", "60"))
STORES = os.environ.get("HEADWATER_FAULT_METADATA", ",".join(METADATA)).split(",")
BUCKETS = os.environ.get("HEADWATER_FAULT_OBJECTS", "versitygw").split(",")
LEAST_PER_SECOND = 5
"""Batches acknowledged, polls with records and records processed by groups: fewer prove little."""

pytestmark = pytest.mark.timeout(SECONDS + 2 * QUIET_SECONDS + 120)


@pytest.mark.parametrize("objects", BUCKETS)
@pytest.mark.parametrize("metadata", STORES)
async def test_nothing_is_lost_repeated_or_reordered_whatever_fails(
    tmp_path: Path, metadata: str, objects: str, tell: Callable[[str], None]
) -> None:
    with seeded() as rng:
        # What is written inline does not need the object store.
        settings = {**random_settings(rng), "inline_bytes": rng.choice([0, 2_000])}
        async with running_cluster(
            tmp_path, metadata=metadata, objects=objects, settings=settings
        ) as cluster:
            outcome = await run(cluster, rng, SECONDS)
            tell(f"{metadata} and {objects}, seed {rng.chosen}: {outcome.summary()}")
            found = outcome.findings()
            assert not found, "\n".join(found[:20])
            assert not cluster.crashes(), "\n".join(cluster.crashes())
            await cluster.wait_until_only_named_objects_are_left()
    least = LEAST_PER_SECOND * SECONDS
    assert outcome.acknowledged > least
    assert outcome.polled > least
    assert outcome.processed > least
    assert outcome.unanswered, "every attempt was answered: no fault was felt"
    missing = set(ClusterHarm) - set(outcome.faults)
    assert not missing, f"these faults did not happen: {missing}"
    assert outcome.together, "no two faults happened at once"
