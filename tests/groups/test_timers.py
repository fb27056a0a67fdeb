"""Groups are looked at when their deadlines come, whatever loop they run on."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from headwater.groups.timers import Timers


def group(deadline: float) -> Any:
    return SimpleNamespace(
        machine=SimpleNamespace(deadline=deadline),
        scheduled=None,
        shard=SimpleNamespace(left=False),
    )


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_deadlines_that_are_past_already_are_seen_to_among_others(factory: Any) -> None:
    async def main() -> list[Any]:
        seen: list[Any] = []

        def due(one: Any, _now: float) -> None:
            one.machine.deadline = None
            seen.append(one)

        timers = Timers(due)
        now = asyncio.get_running_loop().time()
        groups = [group(now - 1), group(now - 2), group(now + 0.01), group(now + 0.005)]
        for one in groups:
            timers.watch(one)
        async with asyncio.timeout(10):
            while len(seen) < len(groups):
                await asyncio.sleep(0.001)
        timers.close()
        return [groups.index(one) for one in seen]

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == [1, 0, 3, 2]
