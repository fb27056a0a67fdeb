"""Several broker processes under one command: started together, restarted when they die.

A worker is this same command with its own id and ports. It says ``ready`` on its standard
output once it listens, and it stops when its standard input ends, so that no worker outlives
its supervisor, however that ends.
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
"""A worker that ran this long starts over with the first pause when it dies."""


STOP_TIMEOUT = 60.0
"""A worker that has not stopped by then is killed; its acknowledged records are safe."""


class CannotGoOn(click.ClickException):
    """Ends a worker that has run whose stores are no longer its cluster's.

    To start it again would not help, and might make a new store in the place of one that is gone.
    """

    exit_code = 78


def worker_flags(settings: Settings, number: int) -> list[str]:
    """The flags that set worker ``number`` apart from the command that started it."""
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
    """How long to wait before a dead worker is started again."""

    pause: float = 0.0

    def after(self, lifetime: float) -> float:
        """The pause after a life of ``lifetime`` seconds: twice the last, up to a limit."""
        grown = FIRST_PAUSE if lifetime >= HEALTHY_AFTER else self.pause * 2
        self.pause = min(max(grown, FIRST_PAUSE), LONGEST_PAUSE)
        return self.pause


class Supervisor:
    """Runs ``commands``, one worker each, until ``stop`` is called."""

    def __init__(self, commands: Sequence[Sequence[str]]) -> None:
        self._commands = commands
        self._stopping = asyncio.Event()
        self._ready = [asyncio.Event() for _ in commands]

    def stop(self) -> None:
        """Ask every worker to stop; ``run`` returns when all have."""
        self._stopping.set()

    async def wait_ready(self) -> None:
        """Return when every worker has listened once."""
        for ready in self._ready:
            await ready.wait()

    async def run(self) -> None:
        """Raises ``ConfigurationError`` when a worker cannot start at all, or cannot go on."""
        async with asyncio.TaskGroup() as group:
            for number, command in enumerate(self._commands):
                group.create_task(self._keep(number, command))

    async def _keep(self, number: int, command: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        backoff = RestartDelay()
        while not self._stopping.is_set():
            started = loop.time()
            code = await self._live(number, command)
            if self._stopping.is_set():
                return
            if not self._ready[number].is_set():
                # Its own line on stderr has said why.
                raise ConfigurationError(f"worker {number} could not start; all are stopped")
            if code == CannotGoOn.exit_code:
                raise ConfigurationError(f"worker {number} cannot go on; all are stopped")
            pause = backoff.after(loop.time() - started)
            logger.error(
                "Worker died", extra={"worker": number, "code": code, "restart_in_s": pause}
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _live(self, number: int, command: Sequence[str]) -> int:
        """One life of one worker, ended by itself, by ``stop``, or by another's failure."""
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C reaches workers through us alone
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
    """Ask a process to end, and kill it where it has not within ``patience`` seconds."""
    ended = asyncio.ensure_future(process.wait())
    if process.returncode is None:
        process.terminate()
        if not (await asyncio.wait([ended], timeout=patience))[0]:
            process.kill()
    await ended


def command_line(arguments: Sequence[str]) -> list[str]:
    """This interpreter running ``headwater`` with ``arguments``."""
    return [sys.executable, "-m", "headwater.cli", *arguments]
