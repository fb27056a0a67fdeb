"""Groups are looked at when their deadlines come, whatever loop they run on."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from headwater.coordination.timers import Timers


class DeadlineEntry:
    """An entry whose machine has a deadline."""

    def __init__(self, number: int, deadline: float) -> None:
        self.number = number
        self.name = str(number)
        self.machine: Any = SimpleNamespace(deadline=deadline)
        self.scheduled: float | None = None
        self.shard: Any = SimpleNamespace(resigned=False, kind=SimpleNamespace(noun="group"))

    @property
    def deadline(self) -> float | None:
        deadline: float | None = self.machine.deadline
        return deadline


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_past_deadlines_are_handled_among_others(factory: Any) -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        def due(one: DeadlineEntry, _now: float) -> None:
            one.machine.deadline = None
            seen.append(one.number)

        timers = Timers(due)
        now = asyncio.get_running_loop().time()
        for number, after in enumerate((-1, -2, 0.02, 0.01)):
            timers.watch(DeadlineEntry(number, now + after))
        async with asyncio.timeout(10):
            while len(seen) < 4:
                await asyncio.sleep(0.001)
        timers.close()
        return seen

    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == [1, 0, 3, 2]


class Broken:
    """A machine that gives its deadline once, and fails from then on."""

    def __init__(self, deadline: float) -> None:
        self._deadlines = [deadline]

    @property
    def deadline(self) -> float:
        return self._deadlines.pop()


async def test_a_failing_group_does_not_stop_the_timers_of_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[int] = []

    def due(one: DeadlineEntry, _now: float) -> None:
        one.machine.deadline = None
        seen.append(one.number)

    timers = Timers(due)
    now = asyncio.get_running_loop().time()
    broken = DeadlineEntry(0, now)
    broken.machine = Broken(now + 0.01)
    for one in (broken, DeadlineEntry(1, now + 0.01), DeadlineEntry(2, now + 0.03)):
        timers.watch(one)
    async with asyncio.timeout(5):
        while len(seen) < 2:
            await asyncio.sleep(0.001)
    timers.close()
    assert seen == [1, 2]
    assert "A timer failed  kind=group  entry=0" in caplog.text
