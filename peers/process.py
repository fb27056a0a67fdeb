"""Servers as child processes: started on a free port, waited for, stopped by their pid."""

import os
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom


class ServerError(RuntimeError):
    """A server ended, or did not answer in time; the message ends with its last lines."""


@dataclass(frozen=True, slots=True)
class Server:
    """One running server. ``bootstrap`` is what a Kafka client connects to."""

    process: subprocess.Popen[bytes]
    bootstrap: str
    log: Path
    started_in: float

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, *, grace: float = 20.0) -> None:
        """Ask it to end, and kill it where it does not within ``grace`` seconds."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def free_port(*, consecutive: int = 1) -> int:
    """The first of ``consecutive`` ports on loopback that nobody uses.

    They are below those that the system gives to connections: a server that starts, or starts
    again, on one of them is in nobody's way.
    """
    while True:
        first = SystemRandom().randrange(15_000, 31_000)
        if all(_is_free(first + step) for step in range(consecutive)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def start(
    command: Sequence[str | Path],
    *,
    ports: Sequence[int],
    log: Path,
    environment: Mapping[str, str] | None = None,
    limit: float = 60.0,
) -> Server:
    """Start ``command`` and return when it listens on every one of ``ports``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    words = [str(word) for word in command]
    began = time.monotonic()
    with log.open("ab") as out:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(environment or {})},
        )
    server = Server(process, f"127.0.0.1:{ports[0]}", log, 0.0)
    try:
        for port in ports:
            _wait_for(port, process, began + limit)
    except ServerError as failed:
        server.kill()
        last = log.read_text(errors="replace").strip().splitlines()[-15:]
        raise ServerError("\n".join([f"{failed}: {shlex.join(words)}", *last])) from None
    bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
    return Server(process, bootstrap, log, time.monotonic() - began)


def _wait_for(port: int, process: subprocess.Popen[bytes], deadline: float) -> None:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerError(f"ended with {process.returncode} before it listened on {port}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise ServerError(f"does not listen on {port} in time")


def tail(done: subprocess.CompletedProcess[str], lines: int = 3) -> str:
    """The last words of a command that failed."""
    return " | ".join((done.stdout + done.stderr).strip().splitlines()[-lines:])
