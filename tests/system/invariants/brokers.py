"""Broker processes: started, killed, stopped and woken, and what they wrote about it."""

import asyncio
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from peers.process import free_port

START_SECONDS = 30.0
ROOT = Path(__file__).parents[3]


@dataclass(slots=True)
class ServeProcess:
    """One broker id; its process may come and go, its port stays.

    Clients find their way back by the addresses that they were given, so a broker that is started
    again must listen where it did. The port is below the range from which the system chooses
    ports of connections, so that no connection takes it in between.
    """

    id: int
    command: list[str]
    log: Path
    environment: dict[str, str]
    port: int = 0
    """Where clients connect."""
    listens: int = 0
    """Where the process listens, if something stands between it and its clients."""
    process: subprocess.Popen[str] | None = None
    paused: bool = False

    @property
    def up(self) -> bool:
        return self.process is not None and not self.paused and self.process.poll() is None

    async def start(self, *extra: str) -> None:
        """Start it and wait until it listens."""
        self.port = self.port or free_port()
        listen = f"127.0.0.1:{self.listens or self.port}"
        advertise = ("--advertise", f"127.0.0.1:{self.port}") if self.listens else ()
        command = [*self.command, "--listen", listen, *advertise, *extra]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(  # noqa: ASYNC220 - a fork is short
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment,
                cwd=ROOT,
            )
        self.paused = False
        async with asyncio.timeout(START_SECONDS):
            assert self.process.stdout is not None
            welcome = await asyncio.to_thread(self.process.stdout.readline)
        if not welcome:
            raise AssertionError(f"broker {self.id} did not start:\n{self.log.read_text()}")

    async def kill(self) -> None:
        """Kill -9, paused or not."""
        if self.process is not None:
            process, self.process = self.process, None
            process.kill()
            await asyncio.to_thread(process.communicate)
        self.paused = False

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused = False

    async def ended(self) -> int:
        """Wait until its process has ended by itself; its exit code."""
        assert self.process is not None
        process = self.process
        async with asyncio.timeout(START_SECONDS):
            await asyncio.to_thread(process.communicate)
        self.process = None
        return process.returncode

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


@dataclass(slots=True, kw_only=True)
class ServeProcesses:
    """The brokers of one cluster, by id."""

    brokers: dict[int, ServeProcess] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        """What a Kafka client connects to."""
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    async def kill_all(self) -> None:
        for broker in self.brokers.values():
            await broker.kill()

    def logs(self) -> str:
        """The end of what the brokers wrote to stderr."""
        return "\n".join(
            f"--- broker {broker.id}\n{broker.log.read_text()[-3000:]}"
            for broker in self.brokers.values()
            if broker.log.exists()
        )

    def crashes(self) -> list[str]:
        """Tracebacks and errors that brokers logged: a fault is no reason for any."""
        return [
            f"broker {broker.id}: {line[:2000]}"
            for broker in self.brokers.values()
            if broker.log.exists()
            for line in broker.log.read_text().splitlines()
            if "Traceback" in line or '"level": "error"' in line
        ]
