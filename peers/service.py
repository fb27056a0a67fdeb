"""A store that a test may kill, freeze and start again over the same data and ports."""

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from peers.process import Server, ServerError, start


@dataclass(slots=True, kw_only=True)
class Service:
    """One server, running from its creation until ``stop`` or ``kill``.

    ``ports[0]`` is the one that clients use. Where ``health`` is a path, the service runs once
    that answers over HTTP on the last of ``ports``; else, once it listens on all of them.
    """

    command: Sequence[str | Path]
    ports: Sequence[int]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    health: str | None = None
    limit: float = 60.0
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def address(self) -> str:
        """``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.server.pid

    def start(self) -> None:
        """Start it after ``stop`` or ``kill``; returns when it answers."""
        began = time.monotonic()
        self.server = start(
            self.command,
            ports=self.ports,
            log=self.log,
            environment=self.environment,
            limit=self.limit,
        )
        if self.health is not None:
            self._wait_until_healthy(began + self.limit)

    def stop(self, *, grace: float = 20.0) -> None:
        """Ask it to end, and kill it where it does not within ``grace`` seconds.

        A frozen one goes on first.
        """
        self.thaw()
        self.server.stop(grace=grace)

    def kill(self) -> None:
        """End it as a crash does."""
        self.server.kill()

    def restart(self, *, crash: bool = True) -> None:
        """The same server again, after a crash or an orderly stop."""
        if crash:
            self.kill()
        else:
            self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop it without ending it: connections stay and nothing answers."""
        self.server.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.server.process.send_signal(signal.SIGCONT)

    def _wait_until_healthy(self, deadline: float) -> None:
        url = f"http://127.0.0.1:{self.ports[-1]}{self.health}"
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=2):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)
        self.kill()
        raise ServerError(f"{url} does not answer in time; see {self.log}")
