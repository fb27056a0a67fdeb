"""Signals and other events that stop a process."""

import asyncio
import signal
import sys
from collections.abc import Callable


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Call ``stop`` on the first SIGINT or SIGTERM; a second one kills the process."""
    loop = asyncio.get_running_loop()

    def stop_once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_once, number)


def stop_with_parent(stop: Callable[[], None]) -> None:
    """Call ``stop`` when standard input ends, which happens when the parent process ends."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop()

    loop.add_reader(sys.stdin.fileno(), ended)
