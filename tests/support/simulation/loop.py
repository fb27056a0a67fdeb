"""An event loop on simulated time: sleeping costs nothing and every run is the same."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class HasFileno(Protocol):
    def fileno(self) -> int: ...


FileDescriptorLike = int | HasFileno


class _Selector(selectors.BaseSelector):
    """Nothing ever becomes readable; waiting moves the clock instead."""

    def __init__(self) -> None:
        self.now = 0.0
        self._map: dict[FileDescriptorLike, selectors.SelectorKey] = {}

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: Any = None
    ) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, _number(fileobj), events, data)
        self._map[fileobj] = key
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._map.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the simulation stands still: nobody will wake anybody")
        self.now += max(timeout, 0)
        return []

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._map


def _number(fileobj: FileDescriptorLike) -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Runs callbacks in order, on a clock that jumps to the next timer."""

    def __init__(self) -> None:
        self.simulated = _Selector()
        super().__init__(self.simulated)

    def time(self) -> float:
        return self.simulated.now


class SimulatedClock:
    """The wall clock of a simulated loop; it begins at a fixed day."""

    def __init__(self, loop: SimulatedLoop, start_ms: int = 1_700_000_000_000) -> None:
        self._loop = loop
        self._start_ms = start_ms

    def now_ms(self) -> int:
        return self._start_ms + int(self._loop.time() * 1000)


def run_simulated(main: "Coroutine[Any, Any, T]", loop: SimulatedLoop) -> T:
    """Run a coroutine on the loop to its end, then close it."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


def on_simulated_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """An asynchronous test in which sleeping costs nothing, and no time passes in work."""

    @functools.wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        run_simulated(test(*arguments, **named), SimulatedLoop())

    return run
