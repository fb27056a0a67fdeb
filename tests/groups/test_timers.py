"""Groups are looked at when their deadlines come, whatever loop they run on."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from headwater.groups.timers import Timers


def group(number: int, deadline: float) -> Any:
    return SimpleNamespace(
        number=number,
        machine=SimpleNamespace(deadline=deadline),
        scheduled=None,
        shard=SimpleNamespace(left=False),
    )


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_deadlines_that_are_past_already_are_seen_to_among_others(factory: Any) -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        def due(one: Any, _now: float) -> None:
            one.machine.deadline = None
            seen.append(one.number)

        timers = Timers(due)
        now = asyncio.get_running_loop().time()
        for number, after in enumerate((-1, -2, 0.02, 0.01)):
            timers.watch(group(number, now + after))
        async with asyncio.timeout(10):
            while len(seen) < 4:
                await asyncio.sleep(0.001)
        timers.close()
        return seen

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == [1, 0, 3, 2]
