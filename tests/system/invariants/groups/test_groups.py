"""Groups of twelve members over three brokers, through kills and long stops of both.

``HEADWATER_CHAOS_FAULTS`` says how many faults each kind of group goes through, with twelve
members of its own; without it three groups of four share a few. ``HEADWATER_CHAOS_SEED`` repeats
what is tried.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.system.invariants.groups.checker import violations
from tests.system.invariants.groups.schedule import FAULTS, run_groups, running_groups
from tests.system.invariants.schedule import seeded

KINDS = ("range", "cooperative-sticky", "consumer")
TOGETHER: Mapping[str, Mapping[str, int]] = {"together": dict.fromkeys(KINDS, 4)}
EACH_ALONE: Mapping[str, Mapping[str, int]] = {kind: {kind: 12} for kind in KINDS}
FLEETS = EACH_ALONE if "HEADWATER_CHAOS_FAULTS" in os.environ else TOGETHER

pytestmark = pytest.mark.timeout(FAULTS * 10 + 300)


@pytest.mark.parametrize("kinds", FLEETS.values(), ids=FLEETS)
async def test_groups_process_everything_and_never_go_back_through_kills_and_stops(
    tmp_path: Path, kinds: Mapping[str, int]
) -> None:
    with seeded() as rng:
        async with running_groups(tmp_path, kinds) as (cluster, fleet):
            history = await run_groups(cluster, fleet, rng, FAULTS)
            found = violations(history)
            assert not found, "\n".join(found[:20])
            assert not cluster.crashes(), "\n".join(cluster.crashes())
            for group in fleet.groups:
                assert any(claim.group == group for claim in history.claims)
                assert any(commit.group == group for commit in history.committed)
