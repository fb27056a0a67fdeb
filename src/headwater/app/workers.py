"""Supervising several broker processes: they start together and are restarted when they die.

A worker runs the same command with its own id and ports. It prints ``ready`` on standard output
once it listens. It stops when its standard input ends, so no worker outlives its supervisor.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import click

from headwater.config import HostPort, Settings
from headwater.errors import ConfigurationError

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
HEALTHY_AFTER = 60.0
"""Seconds after which a worker counts as healthy: if it dies then, the pause is reset."""


STOP_TIMEOUT = 60.0
"""Seconds to stop; then the worker is killed. Acknowledged records are durable."""


class WorkerCannotContinue(click.ClickException):
    """Raised when a running worker finds that its stores no longer belong to its cluster.

    A restart would not help, and might create a new store in place of a lost one.
    """

    exit_code = 78


def worker_flags(settings: Settings, number: int) -> list[str]:
    """The flags of worker ``number``, to append to the command line."""
    broker = settings.broker
    flags = [
        "--workers=1",
        "--supervised",
        f"--broker-id={broker.id + number}",
        f"--listen={HostPort.parse(broker.listen).shifted(number)}",
    ]
    if broker.advertise is not None:
        flags.append(f"--advertise={HostPort.parse(broker.advertise).shifted(number)}")
    if settings.metrics.listen is not None:
        flags.append(f"--metrics={HostPort.parse(settings.metrics.listen).shifted(number)}")
    if settings.tables.catalog_listen is not None:
        flags.append(f"--catalog={HostPort.parse(settings.tables.catalog_listen).shifted(number)}")
    return flags


@dataclass(slots=True)
class RestartDelay:
    """The pause before a dead worker is restarted."""

    pause: float = 0.0

    def after(self, lifetime: float) -> float:
        """The pause after a lifetime in seconds: twice the last pause, up to a limit."""
        grown = FIRST_PAUSE if lifetime >= HEALTHY_AFTER else self.pause * 2
        self.pause = min(max(grown, FIRST_PAUSE), LONGEST_PAUSE)
        return self.pause


class Supervisor:
    """Runs one worker for each command until ``stop`` is called."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._commands = commands
        self._stopping = asyncio.Event()
        self._ready = [asyncio.Event() for _ in commands]

    def stop(self) -> None:
        """Stop all workers; ``run`` returns when they have stopped."""
        self._stopping.set()

    async def wait_ready(self) -> None:
        """Wait until every worker was ready once."""
        for ready in self._ready:
            await ready.wait()

    async def run(self) -> None:
        """Run the workers. Raises ``ConfigurationError`` if one cannot start or cannot continue."""
        async with asyncio.TaskGroup() as group:
            for number, command in enumerate(self._commands):
                group.create_task(self._supervise(number, command))

    async def _supervise(self, number: int, command: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        backoff = RestartDelay()
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._run_once(number, command)
            if self._stopping.is_set():
                return
            if not self._ready[number].is_set():
                # The worker has printed the reason on stderr.
                raise ConfigurationError(
                    f"worker {number} could not start; all workers are stopped"
                )
            if code == WorkerCannotContinue.exit_code:
                raise ConfigurationError(
                    f"worker {number} cannot continue; all workers are stopped"
                )
            pause = backoff.after(loop.time() - started)
            logger.error(
                "Worker died", extra={"worker": number, "code": code, "restart_in_s": pause}
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _run_once(self, number: int, command: Sequence[str]) -> int:
        """Run one worker until it dies, ``stop`` is called, or another worker fails."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C signals only the supervisor
        )
        assert process.stdout is not None
        stopping = asyncio.ensure_future(self._stopping.wait())
        ended = asyncio.ensure_future(process.wait())
        try:
            if await process.stdout.readline() == b"ready\n":
                self._ready[number].set()
            await asyncio.wait([stopping, ended], return_when=asyncio.FIRST_COMPLETED)
            return process.returncode or 0
        finally:
            stopping.cancel()
            await end(process, STOP_TIMEOUT)


async def end(process: asyncio.subprocess.Process, patience: float) -> None:
    """Terminate a process; kill it if it has not ended within ``patience`` seconds."""
    ended = asyncio.ensure_future(process.wait())
    if process.returncode is None:
        process.terminate()
        if not (await asyncio.wait([ended], timeout=patience))[0]:
            process.kill()
    await ended


def command_line(arguments: Sequence[str]) -> list[str]:
    """The command line that runs ``headwater`` with this interpreter."""
    return [sys.executable, "-m", "headwater.cli", *arguments]
